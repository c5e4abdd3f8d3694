// What NVML says, by way of nvidia-smi: NVML is a C library, and the container runtime gives both with a GPU, real or
// simulated. It is asked anew at each question: a container without a GPU has none, and that is an answer too.
package main

import (
	"context"
	"encoding/json"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Without its persistence daemon a real driver starts a GPU anew at each question, which takes seconds.
const patience = 30 * time.Second

var query = []string{
	"--query-gpu=index,uuid,name,memory.total,memory.used,driver_version",
	"--format=csv,noheader,nounits",
}

// gpus tells the driver's version, of each GPU what is known, and why nothing is known; nil for what is not known.
func gpus() (driver any, devices []object, problem any) {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	said, err := exec.CommandContext(ctx, "nvidia-smi", query...).CombinedOutput()
	text := strings.TrimSpace(string(said))
	devices = []object{}
	for line := range strings.Lines(text) {
		row := strings.Split(strings.TrimSpace(line), ", ")
		if len(row) != 6 { // a sentence, such as which GPU is lost
			continue
		}
		index, unknown := strconv.Atoi(row[0])
		if unknown != nil { // a GPU that is lost
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
	case err != nil: // there is no nvidia-smi
		problem = err.Error()
	}
	return driver, devices, problem
}

// value gives nil where nvidia-smi says in brackets why there is none, such as [N/A].
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

// failure gives what is said of a GPU that does not answer, such as [GPU is lost].
func failure(row []string) any {
	for _, word := range row {
		if value(word) == nil && word != "[N/A]" && word != "[Not Supported]" {
			return strings.Trim(word, "[]")
		}
	}
	return nil
}
