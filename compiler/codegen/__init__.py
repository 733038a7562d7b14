"""From modules at level "plan" to machine code: LLVM, ptxas, and the processes they run in."""
