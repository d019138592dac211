// Aliases writes the file that the command swap puts in the place of client-go's
// package: for each name that client-go exports, an alias or a function that forwards
// to ours. Run it by
//
//	go run -C compat ./aliases
package main

import (
	"log"
	"os"
)

const file = "../swap/internal/aliases/aliases.go"

func main() {
	log.SetFlags(0)
	text, err := generate()
	if err == nil {
		err = os.WriteFile(file, text, 0o644)
	}
	if err != nil {
		log.Fatal(err)
	}
}
