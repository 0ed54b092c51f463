use super::*;

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// A reparse point of Windows with these names, with or without flags.
fn windows(tag: u32, substitute: &str, print: &str) -> Reparse {
    let (substitute, print) = (utf16(substitute), utf16(print));
    let (one, other) = (substitute.len() as u16, print.len() as u16);
    let mut data: Vec<u8> = [0, one, one, other].iter().flat_map(|it| it.to_le_bytes()).collect();
    if tag == IO_REPARSE_TAG_SYMLINK {
        data.extend([1, 0, 0, 0]);
    }
    data.extend([substitute, print].concat());
    Reparse { number: 40, tag, data }
}

fn target(reparse: &Reparse) -> Result<String, String> {
    let target = reparse.target().map_err(|error| error.to_string())?;
    Ok(String::from_utf8(target).unwrap())
}

#[test]
fn a_link_leads_where_windows_would_go() {
    for (tag, substitute, print, expected) in [
        (IO_REPARSE_TAG_SYMLINK, "..\\other\\größe", "shown", "../other/größe"),
        (IO_REPARSE_TAG_SYMLINK, "\\??\\C:\\Users\\ann", "C:\\Users\\ann", "C:/Users/ann"),
        (IO_REPARSE_TAG_SYMLINK, "\\rooted", "", "/rooted"),
        (IO_REPARSE_TAG_SYMLINK, "", "a\\b", "a/b"),
        (IO_REPARSE_TAG_MOUNT_POINT, "\\??\\D:\\", "D:\\", "D:/"),
    ] {
        assert_eq!(target(&windows(tag, substitute, print)), Ok(expected.into()));
    }
    let data = [&LX_VERSION[..], b"/etc/\xFFpasswd"].concat();
    let linux = Reparse { number: 40, tag: IO_REPARSE_TAG_LX_SYMLINK, data };
    assert_eq!(linux.target(), Ok(b"/etc/\xFFpasswd".to_vec()));
}

#[test]
fn a_link_whose_names_lie_elsewhere_is_damaged() {
    let whole = windows(IO_REPARSE_TAG_SYMLINK, "abc", "abc");
    for len in 0..18 {
        let cut = Reparse { data: whole.data[..len].to_vec(), ..whole };
        assert_eq!(target(&cut), Err("damaged: record 40: $REPARSE_POINT: a link without a target".into()));
    }
    assert!(target(&windows(IO_REPARSE_TAG_SYMLINK, "a\0", "")).is_err());
    assert!(target(&windows(IO_REPARSE_TAG_SYMLINK, "", "")).is_err());
}

#[test]
fn what_keeps_the_content_is_named() {
    for (tag, what) in [
        (0x8000_0013, "deduplicated (reparse tag 0x80000013)"),
        (0x8000_0017, "compressed (WOF)"),
        (0x9000_701A, "cloud"),
        (0x1234, "a way that is not known (reparse tag 0x00001234)"),
    ] {
        let reparse = Reparse { number: 40, tag, data: Vec::new() };
        assert!(reparse.refusal().to_string().contains(what), "{}", reparse.refusal());
        assert_eq!((reparse.kind(), reparse.target()), (None, Err(Error::NotA("symbolic link"))));
    }
}
