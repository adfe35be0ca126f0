//! Colours of the picture.

pub(crate) const BACKGROUND: u32 = 0x16_1b22;
pub(crate) const FOREGROUND: u32 = 0xd5_dbe3;
/// The frame of the window, and its title.
pub(crate) const FRAME: u32 = 0x2a_323d;
pub(crate) const TITLE: u32 = 0x8b_949e;

/// Black, red, green, yellow, blue, magenta, cyan, white; then the same brighter.
const NAMED: [u32; 16] = [
    0x48_4f58, 0xf0_7178, 0x7f_d88f, 0xe5_c07b, 0x6c_b6ff, 0xd2_a8ff, 0x5e_d3d8, 0xc9_d1d9, //
    0x6e_7681, 0xff_938a, 0x9b_e9a8, 0xf2_d694, 0x96_cdff, 0xe2_c5ff, 0x8a_e6ea, 0xf5_f8fb,
];

/// The colour as red, green and blue; `None` for the default of the terminal. Bold text has the brighter named colours.
pub(crate) fn rgb(colour: vt100::Color, is_bold: bool) -> Option<u32> {
    match colour {
        vt100::Color::Default => None,
        vt100::Color::Idx(index @ 0..=7) if is_bold => Some(NAMED[usize::from(index) + 8]),
        vt100::Color::Idx(index @ 0..=15) => Some(NAMED[usize::from(index)]),
        vt100::Color::Idx(index @ 16..=231) => {
            let part = |divisor: u8| match (index - 16) / divisor % 6 {
                0 => 0,
                step => 55 + 40 * u32::from(step),
            };
            Some(part(36) << 16 | part(6) << 8 | part(1))
        }
        vt100::Color::Idx(index) => Some((8 + 10 * u32::from(index - 232)) * 0x01_0101),
        vt100::Color::Rgb(red, green, blue) => {
            Some(u32::from(red) << 16 | u32::from(green) << 8 | u32::from(blue))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_those_of_a_terminal() {
        let idx = |index| rgb(vt100::Color::Idx(index), false);
        assert_eq!([idx(16), idx(196), idx(231)], [Some(0), Some(0xff_0000), Some(0xff_ffff)]);
        assert_eq!([idx(232), idx(255)], [Some(0x08_0808), Some(0xee_eeee)]);
        assert_eq!(rgb(vt100::Color::Rgb(1, 2, 3), true), Some(0x01_0203));
        assert_ne!(rgb(vt100::Color::Idx(1), true), rgb(vt100::Color::Idx(1), false));
        assert_eq!(rgb(vt100::Color::Default, true), None);
    }
}
