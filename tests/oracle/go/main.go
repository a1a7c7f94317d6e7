// Oracle answers questions with the code of Kubernetes itself: one JSON case per line on standard input,
// one JSON answer per line on standard output, in the same order.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// A mode answers one line. What it returns is written as one line of JSON.
var modes = map[string]func(line []byte) any{
	"allocate": answerAllocate,
	"cel":      answerCel,
}

func main() {
	if len(os.Args) != 2 || modes[os.Args[1]] == nil {
		fmt.Fprintf(os.Stderr, "usage: oracle allocate|cel < cases.jsonl > answers.jsonl\n")
		os.Exit(2)
	}
	if err := serve(modes[os.Args[1]], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(answer func([]byte) any, in io.Reader, out io.Writer) error {
	lines := bufio.NewReaderSize(in, 1<<20)
	answers := json.NewEncoder(out)
	answers.SetEscapeHTML(false)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			if err := answers.Encode(answer(line)); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
