"""From modules at level "llvm" to machine code: LLVM, ptxas, and the processes they run in."""
