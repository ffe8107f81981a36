# make test       compile NAME_test.c with the compiler of this machine, and run it
test: NAME_test
	./NAME_test

NAME_test: NAME_test.c INPUTS mirrorball_test.h
	$(CC) -g -Wall NAME_test.c -o NAME_test

# make kernel     compile SOURCE to a BPF object, for a kernel that has the hook
kernel: NAME.bpf.o

NAME.bpf.o: INPUTS mirrorball_kernel.h
	clang --target=bpf -mcpu=v3 -O2 -g -DMB_KERNEL -c SOURCE -o NAME.bpf.o

.PHONY: test kernel
