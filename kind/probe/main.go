// probe [serve [MODEL]]  serves HTTP; server.go lists the paths
// probe facts            prints the response of GET /facts
//
// The image also contains this program as vllm, so that the command line of a vLLM Deployment starts it. It ignores
// other options of vLLM and names them on stderr.
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
	exitOnSignal()
	os.Exit(run(os.Args[1:]))
}

// exitOnSignal handles signals that the first process of a container would ignore without a handler.
func exitOnSignal() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-signals
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
			fmt.Fprintln(os.Stderr, "probe: ignored argument:", words[0])
		case !joined && len(words) == 1:
			return fail("%s needs a value", name)
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
		return fail("invalid port %q: expected 0 to 65535", options["--port"])
	}
	return serve(options["--host"], port, echo{or(options["--served-model-name"], options["--model"])})
}

func isOption(word string) bool {
	return strings.HasPrefix(word, "-")
}

func fail(format string, values ...any) int {
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
