// What this container sees. Of the environment only what concerns GPUs: the rest may hold secrets.
package main

import (
	"os"
	"path/filepath"
)

type object = map[string]any

var variables = []string{
	"NVIDIA_VISIBLE_DEVICES", // the device plugin for whole GPUs, KAI's binder for parts of one
	"NVIDIA_DRIVER_CAPABILITIES",
	"CUDA_VISIBLE_DEVICES",
	"RUNAI_NUM_OF_GPUS", // KAI's binder, deprecated; the same value as GPU_PORTION
	"GPU_PORTION",
	"CUDA_DEVICE_MEMORY_LIMIT", // KAI 0.16 and newer with HAMi-core (pkg/binder/plugins/hamicore)
	"KAILAB_GPU_MEMORY_MIB",    // what a workload on a simulated GPU says that it uses
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
		"device_files": append([]string{}, files...), // [] where there are none, not null
		"nvml":         object{"driver": driver, "error": problem},
		"devices":      devices,
	}
}
