// Facts about this container. They include only the environment variables about GPUs; others may hold secrets.
package main

import (
	"os"
	"path/filepath"
)

type object = map[string]any

var variables = []string{
	"NVIDIA_VISIBLE_DEVICES", // from the device plugin for whole GPUs, from KAI's binder for fractions
	"NVIDIA_DRIVER_CAPABILITIES",
	"CUDA_VISIBLE_DEVICES",
	"RUNAI_NUM_OF_GPUS", // from KAI's binder, deprecated; same value as GPU_PORTION
	"GPU_PORTION",
	"CUDA_DEVICE_MEMORY_LIMIT", // KAI 0.16 and newer with HAMi-core (pkg/binder/plugins/hamicore)
	"KAILAB_GPU_MEMORY_MIB",    // declared memory use of a workload on a simulated GPU
}

func facts() object {
	hostname, _ := os.Hostname()
	environment := object{}
	for _, name := range variables {
		environment[name] = nil
		if value, set := os.LookupEnv(name); set {
			environment[name] = value
		}
	}
	files, _ := filepath.Glob("/dev/nvidia*")
	driver, devices, problem := gpus()
	return object{
		"hostname":     hostname,
		"pid":          os.Getpid(),
		"env":          environment,
		"device_files": append([]string{}, files...), // encodes as [] instead of null if empty
		"nvml":         object{"driver": driver, "error": problem},
		"devices":      devices,
	}
}
