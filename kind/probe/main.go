// probe [serve [MODEL]]  serves HTTP; server.go has the table of its paths
// probe facts            prints what GET /facts says, once
//
// The same program is called vllm in the image, so that the command line of a vLLM Deployment starts it: options of
// vLLM's that mean nothing here are named on stderr and let pass.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
)

const usage = `usage: probe [serve [MODEL]] [--model NAME] [--served-model-name NAME] [--host ADDRESS] [--port NUMBER]
       probe facts
`

func main() {
	endWhenTold()
	os.Exit(run(os.Args[1:]))
}

// As the first process of a container it would ignore these signals without a handler.
func endWhenTold() {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-told
		os.Exit(0)
	}()
}

func run(words []string) int {
	options := map[string]string{"--model": "", "--served-model-name": "", "--host": "", "--port": "8000"}
	switch {
	case len(words) == 1 && words[0] == "facts":
		return printFacts()
	case len(words) == 0 || isOption(words[0]):
	case words[0] == "serve":
		words = words[1:]
		if len(words) > 0 && !isOption(words[0]) {
			options["--model"], words = words[0], words[1:]
		}
	default:
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
	for len(words) > 0 {
		name, value, joined := strings.Cut(words[0], "=")
		_, known := options[name]
		switch {
		case name == "--help" || name == "-h":
			fmt.Print(usage)
			return 0
		case !known:
			fmt.Fprintln(os.Stderr, "probe: not used:", words[0])
		case !joined && len(words) == 1:
			return wrong("%s needs a value", name)
		case !joined:
			words = words[1:]
			options[name] = words[0]
		default:
			options[name] = value
		}
		words = words[1:]
	}
	port, err := strconv.ParseUint(options["--port"], 10, 16)
	if err != nil {
		return wrong("%s is no port", options["--port"])
	}
	return serve(options["--host"], port, echo{or(options["--served-model-name"], options["--model"])})
}

func isOption(word string) bool {
	return strings.HasPrefix(word, "-")
}

func wrong(format string, values ...any) int {
	fmt.Fprintf(os.Stderr, "probe: "+format+"\n", values...)
	return 2
}

func printFacts() int {
	if err := json.NewEncoder(os.Stdout).Encode(facts()); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		return 1
	}
	return 0
}
