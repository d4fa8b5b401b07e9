//! Media types, file names and data URLs.

use super::MediaKind;

/// Endings of file names and their media types; of several endings of a type the usual one is first.
const TYPES: &[(&str, &str)] = &[
    ("png", "image/png"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("heic", "image/heic"),
    ("heif", "image/heif"),
    ("bmp", "image/bmp"),
    ("svg", "image/svg+xml"),
    ("wav", "audio/wav"),
    ("mp3", "audio/mpeg"),
    ("mp3", "audio/mp3"),
    ("ogg", "audio/ogg"),
    ("flac", "audio/flac"),
    ("aac", "audio/aac"),
    ("aiff", "audio/aiff"),
    ("m4a", "audio/mp4"),
    ("opus", "audio/opus"),
    ("pcm16", "audio/pcm"),
    ("mp4", "video/mp4"),
    ("mov", "video/quicktime"),
    ("webm", "video/webm"),
    ("mkv", "video/x-matroska"),
    ("mpeg", "video/mpeg"),
    ("flv", "video/x-flv"),
    ("wmv", "video/x-ms-wmv"),
    ("three_gp", "video/3gpp"),
    ("pdf", "application/pdf"),
    ("csv", "text/csv"),
    ("doc", "application/msword"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("xls", "application/vnd.ms-excel"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("html", "text/html"),
    ("txt", "text/plain"),
    ("md", "text/markdown"),
    ("json", "application/json"),
];

/// The beginnings of data in base64, by media type.
const BEGINNINGS: &[(&str, &str)] = &[
    ("iVBORw0KGgo", "image/png"),
    ("/9j/", "image/jpeg"),
    ("R0lGOD", "image/gif"),
    ("JVBERi0", "application/pdf"),
];

/// The media type of data in base64, if its beginning identifies it.
pub(crate) fn type_of_data(data: &str) -> Option<&'static str> {
    // `RIFF`, four bytes of length, `WEBP`.
    if data.starts_with("UklGR") && data.get(12..16) == Some("RUJQ") {
        return Some("image/webp");
    }
    BEGINNINGS.iter().find(|(start, _)| data.starts_with(start)).map(|(_, media_type)| *media_type)
}

/// The media type of a file name, an ending or a URL.
pub(crate) fn type_of_name(name: &str) -> Option<&'static str> {
    let name = name.split(['?', '#']).next().unwrap_or(name);
    let ending = name.rsplit(['.', '/']).next().unwrap_or(name);
    TYPES.iter().find(|(own, _)| own.eq_ignore_ascii_case(ending)).map(|&(_, media_type)| media_type)
}

/// The usual ending of a media type.
pub(crate) fn ending_of_type(media_type: &str) -> Option<&'static str> {
    TYPES.iter().find(|(_, own)| own.eq_ignore_ascii_case(media_type)).map(|&(ending, _)| ending)
}

/// The kind of media with that media type.
pub(crate) fn kind_of(media_type: &str) -> MediaKind {
    match media_type.split('/').next() {
        Some("image") => MediaKind::Image,
        Some("audio") => MediaKind::Audio,
        Some("video") => MediaKind::Video,
        _ => MediaKind::File,
    }
}

/// The media type and the base64 data of a `data:` URL.
pub(crate) fn parse_data_url(url: &str) -> Option<(&str, &str)> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    let media_type = head.strip_suffix(";base64")?;
    Some((media_type, data))
}

/// The `data:` URL of base64 data.
pub(crate) fn data_url(media_type: &str, data: &str) -> String {
    format!("data:{media_type};base64,{data}")
}
