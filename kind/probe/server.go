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

const maxBody = 1 << 20

// apiError is an error in the format of OpenAI's API.
type apiError struct {
	status  int
	param   any // the invalid member, or nil
	message string
}

func (e apiError) Error() string { return e.message }

func (e apiError) body() object {
	kind := strings.ReplaceAll(http.StatusText(e.status), " ", "") + "Error"
	return object{"error": object{"message": e.message, "type": kind, "param": e.param, "code": e.status}}
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

func dispatch(routes map[string]route, w http.ResponseWriter, r *http.Request) (object, error) {
	found, known := routes[r.URL.Path]
	if !known {
		return nil, apiError{http.StatusNotFound, nil, "path not found"}
	}
	if !slices.Contains(found.methods, r.Method) {
		w.Header().Set("Allow", strings.Join(found.methods, ", "))
		return nil, apiError{http.StatusMethodNotAllowed, nil, "method not allowed"}
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return nil, apiError{http.StatusBadRequest, nil, "the body is incomplete"}
	}
	if len(body) > maxBody {
		// Closing with unread bytes resets the connection, and the client might lose the result.
		_, _ = io.Copy(io.Discard, r.Body)
		return nil, apiError{http.StatusRequestEntityTooLarge, nil, "the body is larger than 1 MiB"}
	}
	return found.answer(body)
}

// serve serves until the process ends, and returns an exit code if it cannot. Port 0: any free port.
func serve(host string, port uint64, model echo) int {
	listener, err := net.Listen("tcp", net.JoinHostPort(host, strconv.FormatUint(port, 10)))
	if err != nil {
		fmt.Fprintln(os.Stderr, "probe: cannot listen:", err)
		return 1
	}
	fmt.Println("probe: serving on port", listener.Addr().(*net.TCPAddr).Port)
	routes := routesOf(model)
	server := http.Server{
		ReadTimeout:  10 * time.Second, // disconnects silent clients
		WriteTimeout: 10*time.Second + queryTimeout,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			result, err := dispatch(routes, w, r)
			w.Header().Set("Content-Type", "application/json")
			var failed apiError
			if errors.As(err, &failed) {
				w.WriteHeader(failed.status)
				result = failed.body()
			}
			_ = json.NewEncoder(w).Encode(result)
		}),
	}
	// One request per connection: a client might reuse a connection just when the server closes it.
	server.SetKeepAlivesEnabled(false)
	fmt.Fprintln(os.Stderr, "probe:", server.Serve(listener))
	return 1
}

func or(word, fallback string) string {
	if word == "" {
		return fallback
	}
	return word
}
