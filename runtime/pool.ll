; The thread pool and the interpreter of launch tables, in LLVM IR (22): `pool.py` fills the structures, the compiler
; compiles this text into the member `pool.o` of an executable. For AArch64, `pool_text` replaces `pause`.
;
; %Control, one cache line for each group of fields that the same threads write:
;   line 0  word      epoch << 32 | next block to claim. The launch is closed while next = 2^31 - 1.
;           fn, args, blocks, chunk     the open launch
;   line 1  done      blocks of the open launch that are finished (its low half is what a waiting caller sleeps on)
;           waiting   1 while the caller sleeps
;   line 2  sleepers, shutdown, cancel, workers, spin (pauses before a thread sleeps), futex (the system call's number)
;
; Workers claim blocks by a compare-exchange on `word`, so a late worker can never touch the next launch: the epoch has
; changed. The caller closes the word before it rewrites the fields, and a worker reads them before its compare-exchange:
; if that succeeds, what it read belongs to the launch it claimed from. The caller waits for finished *blocks*, never for
; workers, so a worker that the system does not run costs nothing.

%Control = type { i64, ptr, ptr, i64, i64, [24 x i8], i64, i32, [52 x i8], i32, i32, i32, i32, i64, i64, [32 x i8] }
%Launch = type { ptr, ptr, i64, i64 }
%Cursor = type { i64, i64 }
; All that a run of a table is given: control, table, launches, cursor, budget; objects, how many, field, addresses,
; moves, how many, args (see blu_run and blu_place).
%Request = type { ptr, ptr, i64, ptr, i64, ptr, i64, i64, ptr, ptr, i64, ptr }

declare i64 @syscall(i64, ...)
declare i32 @clock_gettime(i32, ptr)

define i32 @blu_pool_version() {
  ret i32 2
}

; Nanoseconds of the monotonic clock.
define internal i64 @now() alwaysinline {
  %time = alloca [2 x i64], align 8
  %ignored = call i32 @clock_gettime(i32 1, ptr %time)
  %seconds = load i64, ptr %time, align 8
  %rest = getelementptr i64, ptr %time, i64 1
  %nanoseconds = load i64, ptr %rest, align 8
  %scaled = mul i64 %seconds, 1000000000
  %sum = add i64 %scaled, %nanoseconds
  ret i64 %sum
}

; Whether the caller should stop: somebody set `cancel`, or the deadline has passed.
define internal i1 @should_stop(ptr %control, i64 %deadline) alwaysinline {
  %cancel_at = getelementptr %Control, ptr %control, i32 0, i32 11
  %cancel = load atomic i32, ptr %cancel_at monotonic, align 4
  %cancelled = icmp ne i32 %cancel, 0
  br i1 %cancelled, label %yes, label %clock
clock:
  %time = call i64 @now()
  %late = icmp sge i64 %time, %deadline
  ret i1 %late
yes:
  ret i1 true
}

define internal void @futex_wait(ptr %control, ptr %at, i32 %expected) {
  %number_at = getelementptr %Control, ptr %control, i32 0, i32 14
  %number = load i64, ptr %number_at, align 8
  ; FUTEX_WAIT | FUTEX_PRIVATE_FLAG
  %ignored = call i64 (i64, ...) @syscall(i64 %number, ptr %at, i32 128, i32 %expected, ptr null, ptr null, i32 0)
  ret void
}

define internal void @futex_wake(ptr %control, ptr %at, i32 %count) {
  %number_at = getelementptr %Control, ptr %control, i32 0, i32 14
  %number = load i64, ptr %number_at, align 8
  ; FUTEX_WAKE | FUTEX_PRIVATE_FLAG
  %ignored = call i64 (i64, ...) @syscall(i64 %number, ptr %at, i32 129, i32 %count, ptr null, ptr null, i32 0)
  ret void
}

; Claims a chunk of the open launch: { first block, end block, word seen }, with first = end where there is none.
; Fields are read between the load of the word and the compare-exchange that proves that the word has not changed.
define internal { i64, i64, i64 } @claim(ptr %control) alwaysinline {
entry:
  %blocks_at = getelementptr %Control, ptr %control, i32 0, i32 3
  %chunk_at = getelementptr %Control, ptr %control, i32 0, i32 4
  br label %again
again:
  %word = load atomic i64, ptr %control acquire, align 8
  %next = and i64 %word, 4294967295
  %blocks = load atomic i64, ptr %blocks_at monotonic, align 8
  %open = icmp ult i64 %next, %blocks
  br i1 %open, label %try, label %none
try:
  %chunk = load atomic i64, ptr %chunk_at monotonic, align 8
  fence acquire
  %wanted = add i64 %next, %chunk
  %end = call i64 @llvm.umin.i64(i64 %wanted, i64 %blocks)
  %epoch = and i64 %word, -4294967296
  %claimed = or i64 %epoch, %end
  %pair = cmpxchg ptr %control, i64 %word, i64 %claimed acq_rel monotonic, align 8
  %won = extractvalue { i64, i1 } %pair, 1
  br i1 %won, label %some, label %again
some:
  %some.0 = insertvalue { i64, i64, i64 } poison, i64 %next, 0
  %some.1 = insertvalue { i64, i64, i64 } %some.0, i64 %end, 1
  %some.2 = insertvalue { i64, i64, i64 } %some.1, i64 %word, 2
  ret { i64, i64, i64 } %some.2
none:
  %none.0 = insertvalue { i64, i64, i64 } zeroinitializer, i64 %word, 2
  ret { i64, i64, i64 } %none.0
}

; Runs blocks [first, end) of the open launch. Only somebody who has claimed them calls this: the fields cannot change.
define internal void @execute(ptr %control, i64 %first, i64 %end) alwaysinline {
  %fn_at = getelementptr %Control, ptr %control, i32 0, i32 1
  %args_at = getelementptr %Control, ptr %control, i32 0, i32 2
  %fn = load atomic ptr, ptr %fn_at monotonic, align 8
  %args = load atomic ptr, ptr %args_at monotonic, align 8
  call void %fn(ptr %args, i64 %first, i64 %end)
  ret void
}

; Sleeps until the word's epoch is another than that of %word (or until shutdown, which changes it too).
define internal void @sleep(ptr %control, i64 %word) {
entry:
  %sleepers_at = getelementptr %Control, ptr %control, i32 0, i32 9
  %epoch_at = getelementptr i8, ptr %control, i64 4
  %before = atomicrmw add ptr %sleepers_at, i32 1 seq_cst, align 4
  %word.now = load atomic i64, ptr %control seq_cst, align 8
  %same = icmp eq i64 %word.now, %word
  br i1 %same, label %wait, label %awake
wait:
  %shifted = lshr i64 %word, 32
  %epoch = trunc i64 %shifted to i32
  call void @futex_wait(ptr %control, ptr %epoch_at, i32 %epoch)
  br label %awake
awake:
  %after = atomicrmw sub ptr %sleepers_at, i32 1 seq_cst, align 4
  ret void
}

; What a worker thread runs until `blu_stop`.
define void @blu_worker(ptr %control) {
entry:
  %done_at = getelementptr %Control, ptr %control, i32 0, i32 6
  %waiting_at = getelementptr %Control, ptr %control, i32 0, i32 7
  %shutdown_at = getelementptr %Control, ptr %control, i32 0, i32 10
  %spin_at = getelementptr %Control, ptr %control, i32 0, i32 13
  %spin = load i64, ptr %spin_at, align 8
  br label %look
look:
  %shutdown = load atomic i32, ptr %shutdown_at acquire, align 4
  %over = icmp ne i32 %shutdown, 0
  br i1 %over, label %leave, label %try
try:
  %chunk = call { i64, i64, i64 } @claim(ptr %control)
  %first = extractvalue { i64, i64, i64 } %chunk, 0
  %end = extractvalue { i64, i64, i64 } %chunk, 1
  %word = extractvalue { i64, i64, i64 } %chunk, 2
  %count = sub i64 %end, %first
  %idle = icmp eq i64 %count, 0
  br i1 %idle, label %pause, label %work
work:
  call void @execute(ptr %control, i64 %first, i64 %end)
  %before = atomicrmw add ptr %done_at, i64 %count seq_cst, align 8
  %waiting = load atomic i32, ptr %waiting_at seq_cst, align 4
  %asleep = icmp ne i32 %waiting, 0
  br i1 %asleep, label %wake, label %look
wake:
  call void @futex_wake(ptr %control, ptr %done_at, i32 1)
  br label %look
pause:
  %turns = phi i64 [ 0, %try ], [ %turns.next, %still ]
  call void @llvm.x86.sse2.pause()
  %word.now = load atomic i64, ptr %control monotonic, align 8
  %same = icmp eq i64 %word.now, %word
  br i1 %same, label %still, label %look
still:
  %turns.next = add i64 %turns, 1
  %patient = icmp ult i64 %turns.next, %spin
  br i1 %patient, label %pause, label %tired
tired:
  call void @sleep(ptr %control, i64 %word)
  br label %look
leave:
  ret void
}

; Makes all workers return from `blu_worker`.
define void @blu_stop(ptr %control) {
  %shutdown_at = getelementptr %Control, ptr %control, i32 0, i32 10
  store atomic i32 1, ptr %shutdown_at seq_cst, align 4
  %before = atomicrmw add ptr %control, i64 4294967296 seq_cst, align 8
  %epoch_at = getelementptr i8, ptr %control, i64 4
  call void @futex_wake(ptr %control, ptr %epoch_at, i32 2147483647)
  ret void
}

; Wakes as many workers as can find a chunk beside the caller and those that are awake already.
define internal void @wake_workers(ptr %control, i64 %count, i64 %chunk) {
entry:
  %sleepers_at = getelementptr %Control, ptr %control, i32 0, i32 9
  %workers_at = getelementptr %Control, ptr %control, i32 0, i32 12
  %sleepers = load atomic i32, ptr %sleepers_at seq_cst, align 4
  %none = icmp eq i32 %sleepers, 0
  br i1 %none, label %leave, label %some
some:
  %workers = load i32, ptr %workers_at, align 4
  %last = sub i64 %count, 1
  %useful.wide = udiv i64 %last, %chunk
  %useful.clamped = call i64 @llvm.umin.i64(i64 %useful.wide, i64 65536)
  %useful.narrow = trunc i64 %useful.clamped to i32
  %useful = call i32 @llvm.umin.i32(i32 %useful.narrow, i32 %workers)
  %awake = sub i32 %workers, %sleepers
  %missing = sub i32 %useful, %awake
  %needed = icmp sgt i32 %missing, 0
  br i1 %needed, label %wake, label %leave
wake:
  %epoch_at = getelementptr i8, ptr %control, i64 4
  call void @futex_wake(ptr %control, ptr %epoch_at, i32 %missing)
  br label %leave
leave:
  ret void
}

; Waits until `done` has reached %target: spins, then sleeps.
define internal void @wait_done(ptr %control, i64 %target) {
entry:
  %done_at = getelementptr %Control, ptr %control, i32 0, i32 6
  %waiting_at = getelementptr %Control, ptr %control, i32 0, i32 7
  %spin_at = getelementptr %Control, ptr %control, i32 0, i32 13
  %spin = load i64, ptr %spin_at, align 8
  br label %look
look:
  %turns = phi i64 [ 0, %entry ], [ %turns.next, %pause ]
  %done = load atomic i64, ptr %done_at acquire, align 8
  %ready = icmp eq i64 %done, %target
  br i1 %ready, label %leave, label %more
more:
  %patient = icmp ult i64 %turns, %spin
  br i1 %patient, label %pause, label %tired
pause:
  call void @llvm.x86.sse2.pause()
  %turns.next = add i64 %turns, 1
  br label %look
tired:
  store atomic i32 1, ptr %waiting_at seq_cst, align 4
  br label %again
again:
  %done.now = load atomic i64, ptr %done_at seq_cst, align 8
  %ready.now = icmp eq i64 %done.now, %target
  br i1 %ready.now, label %up, label %wait
wait:
  %expected = trunc i64 %done.now to i32
  call void @futex_wait(ptr %control, ptr %done_at, i32 %expected)
  br label %again
up:
  store atomic i32 0, ptr %waiting_at seq_cst, align 4
  br label %leave
leave:
  ret void
}

; Runs blocks [%first, %blocks) on the caller alone; returns the first block that was not run.
define internal i64 @launch_alone(ptr %control, ptr %fn, ptr %args, i64 %first, i64 %blocks, i64 %chunk, i64 %deadline) alwaysinline {
entry:
  %empty = icmp uge i64 %first, %blocks
  br i1 %empty, label %leave, label %work
work:
  %begin = phi i64 [ %first, %entry ], [ %end, %check ]
  %wanted = add i64 %begin, %chunk
  %end = call i64 @llvm.umin.i64(i64 %wanted, i64 %blocks)
  call void %fn(ptr %args, i64 %begin, i64 %end)
  %finished = icmp uge i64 %end, %blocks
  br i1 %finished, label %leave, label %check
check:
  %stop = call i1 @should_stop(ptr %control, i64 %deadline)
  br i1 %stop, label %leave, label %work
leave:
  %next = phi i64 [ %blocks, %entry ], [ %end, %work ], [ %end, %check ]
  ret i64 %next
}

; Closes the word, writes the fields, opens the next epoch at block %first.
define internal void @publish(ptr %control, ptr %fn, ptr %args, i64 %first, i64 %blocks, i64 %chunk) alwaysinline {
  %fn_at = getelementptr %Control, ptr %control, i32 0, i32 1
  %args_at = getelementptr %Control, ptr %control, i32 0, i32 2
  %blocks_at = getelementptr %Control, ptr %control, i32 0, i32 3
  %chunk_at = getelementptr %Control, ptr %control, i32 0, i32 4
  %done_at = getelementptr %Control, ptr %control, i32 0, i32 6
  %word = load atomic i64, ptr %control monotonic, align 8
  %epoch = and i64 %word, -4294967296
  %closed = or i64 %epoch, 2147483647
  %old = atomicrmw xchg ptr %control, i64 %closed seq_cst, align 8
  fence release
  store atomic ptr %fn, ptr %fn_at monotonic, align 8
  store atomic ptr %args, ptr %args_at monotonic, align 8
  store atomic i64 %blocks, ptr %blocks_at monotonic, align 8
  store atomic i64 %chunk, ptr %chunk_at monotonic, align 8
  store atomic i64 0, ptr %done_at monotonic, align 8
  %next_epoch = add i64 %epoch, 4294967296
  %opened = or i64 %next_epoch, %first
  store atomic i64 %opened, ptr %control seq_cst, align 8
  ret void
}

; Closes the open launch early; returns the first block that nobody has claimed.
define internal i64 @close(ptr %control, i64 %blocks) alwaysinline {
  %word = load atomic i64, ptr %control monotonic, align 8
  %epoch = and i64 %word, -4294967296
  %closed = or i64 %epoch, 2147483647
  %old = atomicrmw xchg ptr %control, i64 %closed seq_cst, align 8
  %next = and i64 %old, 4294967295
  %end = call i64 @llvm.umin.i64(i64 %next, i64 %blocks)
  ret i64 %end
}

; Runs blocks [%first, %blocks) on all threads; returns the first block that was not run.
define internal i64 @launch_shared(ptr %control, ptr %fn, ptr %args, i64 %first, i64 %blocks, i64 %chunk, i64 %deadline) {
entry:
  call void @publish(ptr %control, ptr %fn, ptr %args, i64 %first, i64 %blocks, i64 %chunk)
  %remaining = sub i64 %blocks, %first
  call void @wake_workers(ptr %control, i64 %remaining, i64 %chunk)
  br label %look
look:
  %mine = phi i64 [ 0, %entry ], [ %mine.next, %check ]
  %claimed = call { i64, i64, i64 } @claim(ptr %control)
  %begin = extractvalue { i64, i64, i64 } %claimed, 0
  %end = extractvalue { i64, i64, i64 } %claimed, 1
  %count = sub i64 %end, %begin
  %none = icmp eq i64 %count, 0
  br i1 %none, label %wait, label %work
work:
  call void %fn(ptr %args, i64 %begin, i64 %end)
  %mine.next = add i64 %mine, %count
  %last = icmp uge i64 %end, %blocks
  br i1 %last, label %wait, label %check
check:
  %stop = call i1 @should_stop(ptr %control, i64 %deadline)
  br i1 %stop, label %early, label %look
early:
  %next = call i64 @close(ptr %control, i64 %blocks)
  br label %wait
wait:
  %reached = phi i64 [ %blocks, %look ], [ %blocks, %work ], [ %next, %early ]
  %executed = phi i64 [ %mine, %look ], [ %mine.next, %work ], [ %mine.next, %early ]
  %total = sub i64 %reached, %first
  %others = sub i64 %total, %executed
  call void @wait_done(ptr %control, i64 %others)
  ret i64 %reached
}

; Runs blocks [%first, %blocks) until the deadline; returns the first block that was not run. A launch of one chunk, or
; of a pool without workers, never touches the shared state.
define internal i64 @launch(ptr %control, ptr %fn, ptr %args, i64 %first, i64 %blocks, i64 %chunk, i64 %deadline) alwaysinline {
entry:
  %workers_at = getelementptr %Control, ptr %control, i32 0, i32 12
  %workers = load i32, ptr %workers_at, align 4
  %lonely = icmp eq i32 %workers, 0
  %remaining = sub i64 %blocks, %first
  %tiny = icmp sle i64 %remaining, %chunk
  %alone = or i1 %lonely, %tiny
  br i1 %alone, label %by_caller, label %by_all
by_caller:
  %next.alone = call i64 @launch_alone(ptr %control, ptr %fn, ptr %args, i64 %first, i64 %blocks, i64 %chunk, i64 %deadline)
  ret i64 %next.alone
by_all:
  %next.shared = call i64 @launch_shared(ptr %control, ptr %fn, ptr %args, i64 %first, i64 %blocks, i64 %chunk, i64 %deadline)
  ret i64 %next.shared
}

; Runs one launch of %blocks blocks. Returns how many were run: fewer only where `cancel` was set.
define i64 @blu_launch(ptr %control, ptr %fn, ptr %args, i64 %blocks, i64 %chunk) {
  %next = call i64 @launch(ptr %control, ptr %fn, ptr %args, i64 0, i64 %blocks, i64 %chunk, i64 9223372036854775807)
  ret i64 %next
}

; Runs the table's launches in order from %cursor { launch, block } on, for about %budget nanoseconds, and writes to the
; cursor where it stopped. Returns the index of the launch to go on with: %count when all have run.
define i64 @blu_run(ptr %control, ptr %table, i64 %count, ptr %cursor, i64 %budget) {
entry:
  %block_at = getelementptr %Cursor, ptr %cursor, i32 0, i32 1
  %start = call i64 @now()
  %deadline = add i64 %start, %budget
  %index.start = load i64, ptr %cursor, align 8
  %first.start = load i64, ptr %block_at, align 8
  br label %look
look:
  %index = phi i64 [ %index.start, %entry ], [ %index.next, %check ]
  %first = phi i64 [ %first.start, %entry ], [ 0, %check ]
  %more = icmp slt i64 %index, %count
  br i1 %more, label %work, label %leave
work:
  %fn_at = getelementptr %Launch, ptr %table, i64 %index, i32 0
  %args_at = getelementptr %Launch, ptr %table, i64 %index, i32 1
  %blocks_at = getelementptr %Launch, ptr %table, i64 %index, i32 2
  %chunk_at = getelementptr %Launch, ptr %table, i64 %index, i32 3
  %fn = load ptr, ptr %fn_at, align 8
  %args = load ptr, ptr %args_at, align 8
  %blocks = load i64, ptr %blocks_at, align 8
  %chunk = load i64, ptr %chunk_at, align 8
  %next = call i64 @launch(ptr %control, ptr %fn, ptr %args, i64 %first, i64 %blocks, i64 %chunk, i64 %deadline)
  %whole = icmp uge i64 %next, %blocks
  %index.next = add i64 %index, 1
  br i1 %whole, label %check, label %leave
check:
  %stop = call i1 @should_stop(ptr %control, i64 %deadline)
  br i1 %stop, label %leave, label %look
leave:
  %index.end = phi i64 [ %index, %look ], [ %index, %work ], [ %index.next, %check ]
  %block.end = phi i64 [ 0, %look ], [ %next, %work ], [ 0, %check ]
  store i64 %index.end, ptr %cursor, align 8
  store i64 %block.end, ptr %block_at, align 8
  ret i64 %index.end
}

; Reads where the arrays of a run lie and writes that into the kernels' arguments. %objects are numpy's array objects,
; whose field at %field is the address of their data: %addresses receives it, one for each of %count objects. Then, for
; each of %moves { slot, source, offset }, args[slot] = addresses[source] + offset. (From Python this takes 1 us an array.)
define void @blu_place(ptr %objects, i64 %count, i64 %field, ptr %addresses, ptr %moves, i64 %moves.count, ptr %args) {
entry:
  br label %read
read:
  %i = phi i64 [ 0, %entry ], [ %i.next, %read.one ]
  %read.more = icmp slt i64 %i, %count
  br i1 %read.more, label %read.one, label %move
read.one:
  %object.at = getelementptr ptr, ptr %objects, i64 %i
  %object = load ptr, ptr %object.at, align 8
  %data.at = getelementptr i8, ptr %object, i64 %field
  %data = load i64, ptr %data.at, align 8
  %address.at = getelementptr i64, ptr %addresses, i64 %i
  store i64 %data, ptr %address.at, align 8
  %i.next = add i64 %i, 1
  br label %read
move:
  %j = phi i64 [ 0, %read ], [ %j.next, %move.one ]
  %move.more = icmp slt i64 %j, %moves.count
  br i1 %move.more, label %move.one, label %leave
move.one:
  %slot.at = getelementptr [3 x i64], ptr %moves, i64 %j, i64 0
  %source.at = getelementptr [3 x i64], ptr %moves, i64 %j, i64 1
  %offset.at = getelementptr [3 x i64], ptr %moves, i64 %j, i64 2
  %slot = load i64, ptr %slot.at, align 8
  %source = load i64, ptr %source.at, align 8
  %offset = load i64, ptr %offset.at, align 8
  %from.at = getelementptr i64, ptr %addresses, i64 %source
  %from = load i64, ptr %from.at, align 8
  %pointer = add i64 %from, %offset
  %to.at = getelementptr i64, ptr %args, i64 %slot
  store i64 %pointer, ptr %to.at, align 8
  %j.next = add i64 %j, 1
  br label %move
leave:
  ret void
}

; Places the arrays of a run and runs its table from the beginning, in one call from Python, where each argument of a
; call takes as long as a launch. Returns what blu_run does, which goes on from there.
define i64 @blu_begin(ptr %request) {
  %all = load %Request, ptr %request, align 8
  %control = extractvalue %Request %all, 0
  %table = extractvalue %Request %all, 1
  %launches = extractvalue %Request %all, 2
  %cursor = extractvalue %Request %all, 3
  %budget = extractvalue %Request %all, 4
  %objects = extractvalue %Request %all, 5
  %count = extractvalue %Request %all, 6
  %field = extractvalue %Request %all, 7
  %addresses = extractvalue %Request %all, 8
  %moves = extractvalue %Request %all, 9
  %moves.count = extractvalue %Request %all, 10
  %args = extractvalue %Request %all, 11
  call void @blu_place(ptr %objects, i64 %count, i64 %field, ptr %addresses, ptr %moves, i64 %moves.count, ptr %args)
  store %Cursor zeroinitializer, ptr %cursor, align 8
  %cancel_at = getelementptr %Control, ptr %control, i32 0, i32 11
  store atomic i32 0, ptr %cancel_at monotonic, align 4
  %next = call i64 @blu_run(ptr %control, ptr %table, i64 %launches, ptr %cursor, i64 %budget)
  ret i64 %next
}

declare i64 @llvm.umin.i64(i64, i64)
declare i32 @llvm.umin.i32(i32, i32)
declare void @llvm.x86.sse2.pause()
