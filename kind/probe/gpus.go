// NVML's view, read with nvidia-smi: NVML is a C library, and the container runtime injects both with a GPU, real or
// simulated. Each call runs nvidia-smi again; a container without a GPU lacks it, which is a valid result.
package main

import (
	"context"
	"encoding/json"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Without its persistence daemon, a real driver initializes the GPU for each query, which takes seconds.
const queryTimeout = 30 * time.Second

var query = []string{
	"--query-gpu=index,uuid,name,memory.total,memory.used,driver_version",
	"--format=csv,noheader,nounits",
}

// gpus returns the driver's version, the known properties of each GPU and, without any GPU, the reason; unknown values
// are nil.
func gpus() (driver any, devices []object, problem any) {
	ctx, stop := context.WithTimeout(context.Background(), queryTimeout)
	defer stop()
	output, err := exec.CommandContext(ctx, "nvidia-smi", query...).CombinedOutput()
	text := strings.TrimSpace(string(output))
	devices = []object{}
	for line := range strings.Lines(text) {
		row := strings.Split(strings.TrimSpace(line), ", ")
		if len(row) != 6 { // a message, such as which GPU is lost
			continue
		}
		index, invalid := strconv.Atoi(row[0])
		if invalid != nil { // a lost GPU
			index = len(devices)
		}
		if known := value(row[5]); known != nil {
			driver = known
		}
		devices = append(devices, object{
			"index": index, "uuid": value(row[1]), "name": value(row[2]),
			"memory_total_mib": number(row[3]), "memory_used_mib": number(row[4]), "error": failure(row),
		})
	}
	switch {
	case len(devices) > 0:
	case text != "":
		problem = text
	case err != nil: // nvidia-smi is missing
		problem = err.Error()
	}
	return driver, devices, problem
}

// value returns nil for a reason in brackets instead of a value, such as [N/A].
func value(word string) any {
	if strings.HasPrefix(word, "[") {
		return nil
	}
	return word
}

func number(word string) any {
	if value(word) == nil {
		return nil
	}
	return json.Number(word)
}

// failure returns the reason why a GPU does not respond, such as "GPU is lost".
func failure(row []string) any {
	for _, word := range row {
		if value(word) == nil && word != "[N/A]" && word != "[Not Supported]" {
			return strings.Trim(word, "[]")
		}
	}
	return nil
}
