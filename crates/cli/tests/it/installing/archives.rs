//! Archives for tests, also such as no tool would make.

use std::io::{Cursor, Write as _};

use tar::EntryType;
use zip::write::SimpleFileOptions;

/// A zip with these files.
pub(crate) fn zip(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (path, bytes) in files {
        let options = SimpleFileOptions::default()
            .compression_method(zip::CompressionMethod::Deflated)
            .compression_level(Some(1));
        zip.start_file(*path, options).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// A tar with these entries. A link leads to the text.
pub(crate) fn tar(entries: &[(&str, EntryType, &str)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, kind, text) in entries {
        let mut header = tar::Header::new_ustar();
        // The checked setter would refuse what is under test.
        header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(*kind);
        header.set_mode(0o644);
        let bytes = if *kind == EntryType::Regular { text.as_bytes() } else { &[] };
        header.set_size(bytes.len() as u64);
        if matches!(kind, EntryType::Symlink | EntryType::Link) {
            header.set_link_name(text).unwrap();
        }
        header.set_cksum();
        builder.append(&header, bytes).unwrap();
    }
    builder.into_inner().unwrap()
}

/// A tar with these regular files.
pub(crate) fn tar_files(files: &[(&str, &str)]) -> Vec<u8> {
    let entries: Vec<_> = files.iter().map(|(path, text)| (*path, EntryType::Regular, *text)).collect();
    tar(&entries)
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
