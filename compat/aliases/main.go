// Aliases writes the file with which the command swap replaces client-go's package.
// For each exported name of client-go, the file has an alias of our type or a function
// that calls our function. Run the command by
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
