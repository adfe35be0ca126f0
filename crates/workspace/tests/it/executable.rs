//! A small program, written without a compiler.

/// `mov eax, 1` (exit of i386), `mov ebx, 42`, `int 0x80`; then `exit_group(43)` of this machine.
pub(crate) const EXIT_OF_I386: [u8; 24] =
    [0xb8, 1, 0, 0, 0, 0xbb, 42, 0, 0, 0, 0xcd, 0x80, 0xb8, 231, 0, 0, 0, 0xbf, 43, 0, 0, 0, 0x0f, 0x05];

/// Makes a program of these instructions, as small as the system accepts.
pub(crate) fn executable(code: &[u8]) -> Vec<u8> {
    let base: u64 = 0x40_0000;
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0\x01\0\0\0".to_vec();
    file.extend((base + 120).to_le_bytes());
    file.extend(64u64.to_le_bytes());
    file.extend([0; 12]);
    file.extend(b"\x40\0\x38\0\x01\0\0\0\0\0\0\0");
    file.extend(b"\x01\0\0\0\x05\0\0\0");
    let length = 120 + code.len() as u64;
    for field in [0, base, base, length, length, 0x1000] {
        file.extend(field.to_le_bytes());
    }
    file.extend(code);
    file
}
