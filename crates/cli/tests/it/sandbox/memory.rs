//! Case 95: memory that belongs to no process alone counts, also without a control group.

use super::{act, as_plain_user, said, world};

/// Takes memory in pieces of 240 MiB, 2.4 GiB in all, and says what it holds. After each it waits for longer than it takes
/// until somebody looks; then it waits to be killed.
const SCRIPT: &str = r"
import ctypes, errno, mmap, os, sys, time
PIECE, held = 240 << 20, []
def memfd():
    descriptor = os.memfd_create('hidden')
    for _ in range(PIECE >> 24): os.write(descriptor, bytes(1 << 24))
    return descriptor
def shared():
    memory = mmap.mmap(-1, PIECE)
    for at in range(0, PIECE, 4096): memory[at] = 1
    return memory
def system_v():
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmat.restype = ctypes.c_void_p
    number = libc.shmget(0, ctypes.c_size_t(PIECE), 0o1600)
    if number < 0: raise OSError(ctypes.get_errno(), 'shmget')
    ctypes.memset(libc.shmat(number, None, 0), 1, PIECE)
    libc.shmdt(ctypes.c_void_p(libc.shmat(number, None, 0)))
for piece in range(1, 11):
    try: held.append(globals()[sys.argv[1]]())
    except OSError as error: sys.exit('refused: ' + errno.errorcode[error.errno])
    print('holds', piece * 240, 'MiB')
    time.sleep(1)
time.sleep(600)
";

/// What becomes of a script that takes memory of one kind, as a plain user.
fn taken(kind: &str) -> (Option<i32>, String) {
    let world = world(SCRIPT);
    let output = as_plain_user(&world, &act(&world, &["--timeout", "20"], kind)).output().unwrap();
    let text = said(&output);
    assert!(text.contains("no control group can be made"), "{text}");
    (output.status.code(), text)
}

#[test]
fn case_95_memory_in_memfd_is_refused_without_a_control_group() {
    let (code, text) = taken("memfd");
    assert!(code == Some(1) && text.contains("refused: ENOSYS") && !text.contains("holds"), "{text}");
}

#[test]
fn case_95_memory_of_system_v_is_refused_without_a_control_group() {
    let (code, text) = taken("system_v");
    assert!(code == Some(1) && text.contains("refused: ENOSYS") && !text.contains("holds"), "{text}");
}

#[test]
fn case_95_shared_mappings_count_without_a_control_group() {
    let (code, text) = taken("shared");
    assert!(code == Some(137) && text.contains("it used too much memory"), "{text}");
    assert!(!text.contains("holds 2400"), "{text}");
}
