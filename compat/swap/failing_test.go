package swap_test

func failingGo(at string) {}
