module kailab.build/probe

go 1.26
