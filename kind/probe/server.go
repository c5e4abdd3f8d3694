package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

const bodyMost = 1 << 20

// refusal is told in the form that OpenAI's clients know.
type refusal struct {
	status  int
	param   any // the member that is wrong, or nil
	message string
}

func (r refusal) Error() string { return r.message }

func (r refusal) told() object {
	kind := strings.ReplaceAll(http.StatusText(r.status), " ", "") + "Error"
	return object{"error": object{"message": r.message, "type": kind, "param": r.param, "code": r.status}}
}

type route struct {
	methods []string
	answer  func(body []byte) (object, error)
}

func routesOf(model echo) map[string]route {
	read := func(answer func() object) route {
		return route{[]string{"GET", "HEAD"}, func([]byte) (object, error) { return answer(), nil }}
	}
	return map[string]route{
		"/":                    read(facts),
		"/facts":               read(facts),
		"/health":              read(func() object { return object{"status": "ok"} }),
		"/v1/models":           read(model.models),
		"/v1/completions":      {[]string{"POST"}, model.completion},
		"/v1/chat/completions": {[]string{"POST"}, model.chat},
	}
}

func follow(routes map[string]route, w http.ResponseWriter, r *http.Request) (object, error) {
	found, known := routes[r.URL.Path]
	if !known {
		return nil, refusal{http.StatusNotFound, nil, "there is nothing here"}
	}
	if !slices.Contains(found.methods, r.Method) {
		w.Header().Set("Allow", strings.Join(found.methods, ", "))
		return nil, refusal{http.StatusMethodNotAllowed, nil, "this path takes another method"}
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, bodyMost+1))
	if err != nil {
		return nil, refusal{http.StatusBadRequest, nil, "the body did not come"}
	}
	if len(body) > bodyMost {
		// With bytes of the client's unread, the kernel would reset the connection, and the answer might be lost.
		_, _ = io.Copy(io.Discard, r.Body)
		return nil, refusal{http.StatusRequestEntityTooLarge, nil, "the body is larger than 1 MiB"}
	}
	return found.answer(body)
}

// serve serves until the process is ended, and gives the exit code when it cannot. Port 0: any.
func serve(host string, port uint64, model echo) int {
	listener, err := net.Listen("tcp", net.JoinHostPort(host, strconv.FormatUint(port, 10)))
	if err != nil {
		fmt.Fprintln(os.Stderr, "probe: cannot listen:", err)
		return 1
	}
	fmt.Println("probe: serving on port", listener.Addr().(*net.TCPAddr).Port)
	routes := routesOf(model)
	server := http.Server{
		ReadTimeout:  10 * time.Second, // a client that says nothing is sent away
		WriteTimeout: 10*time.Second + patience,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			said, err := follow(routes, w, r)
			w.Header().Set("Content-Type", "application/json")
			var refused refusal
			if errors.As(err, &refused) {
				w.WriteHeader(refused.status)
				said = refused.told()
			}
			_ = json.NewEncoder(w).Encode(said)
		}),
	}
	// One request per connection, or a client might take one up just when the server leaves it.
	server.SetKeepAlivesEnabled(false)
	fmt.Fprintln(os.Stderr, "probe:", server.Serve(listener))
	return 1
}

func or(word, otherwise string) string {
	if word == "" {
		return otherwise
	}
	return word
}
