//! The dates of HTTP headers: `Wed, 21 Oct 2026 07:28:00 GMT`.

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Returns the seconds from 1970 to a date; none if it is not in the form HTTP demands.
pub(super) fn seconds(date: &str) -> Option<i64> {
    let (_, date) = date.trim().split_once(", ")?;
    let mut words = date.split(' ');
    let day: i64 = words.next()?.parse().ok().filter(|day| (1..=31).contains(day))?;
    let month = words.next()?;
    let month = MONTHS.iter().position(|own| own.eq_ignore_ascii_case(month))?;
    let year: i64 = words.next()?.parse().ok().filter(|year| (1970..=9999).contains(year))?;
    let mut seconds = 0;
    let mut clock = words.next()?.split(':');
    for limit in [24, 60, 61] {
        let part: i64 = clock.next()?.parse().ok().filter(|part| (0..limit).contains(part))?;
        seconds = seconds * 60 + part;
    }
    (clock.next().is_none() && words.next() == Some("GMT")).then_some(())?;
    // Years that begin in March end with the leap day.
    let month = i64::try_from(month).ok()?;
    let (year, month) = if month < 2 { (year - 1, month + 10) } else { (year, month - 2) };
    let before = year * 365 + year / 4 - year / 100 + year / 400;
    let days = before + (month * 306 + 5) / 10 + day - 1 - EPOCH;
    Some(days * 86_400 + seconds)
}

/// The days from the first of March of the year 0 to 1970.
const EPOCH: i64 = 719_468;

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn dates_are_counted_from_1970() {
        for (date, expected) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)),
            ("Tue, 29 Feb 2000 23:59:59 GMT", Some(951_868_799)),
            ("Wed, 21 Oct 2026 07:28:00 GMT", Some(1_792_567_680)),
            ("Wed, 21 Oct 2026 07:28:00 CET", None),
            ("Wed, 21 Oct 2026 25:28:00 GMT", None),
            ("Wed, 41 Oct 2026 07:28:00 GMT", None),
            ("2026-10-21", None),
            ("", None),
        ] {
            assert_eq!(seconds(date), expected, "{date}");
        }
    }
}
