//! The patterns of `patternProperties`, as far as coercion reads them.
//!
//! A pattern becomes a short program whose run on a key takes time of its length times the key's. Patterns that such a
//! program cannot express (lookaround, back references, Unicode classes) and long ones are left to validation:
//! [`KeyPattern::matches`] does not know, and the caller keeps the key.

use super::budget::{BudgetSpent, StepBudget};

/// The maximum number of steps of a program: a longer one is not made.
const MAX_STEPS: usize = 1_000;
/// The maximum depth of groups one inside the other.
const MAX_DEPTH: usize = 32;
/// The number of program steps that one step of a budget pays for.
const PER_STEP: usize = 64;

/// A regular expression of the standard, to be found anywhere in a key.
#[derive(Clone, Debug)]
pub(super) struct KeyPattern {
    program: Option<Vec<PatternStep>>,
}

#[derive(Clone, Debug)]
enum PatternStep {
    One(CharClass),
    /// Continues at both positions.
    Fork(usize, usize),
    Go(usize),
    Start,
    End,
    Found,
}

/// A set of characters.
#[derive(Clone, Debug, Default)]
struct CharClass {
    is_negated: bool,
    ranges: Vec<(char, char)>,
    /// Sets that are in it: the characters of `d`, `w` and `s`, or all others.
    sets: Vec<(char, bool)>,
}

impl KeyPattern {
    pub(super) fn new(pattern: &str) -> Self {
        let mut reader = PatternReader { rest: pattern.chars().peekable(), steps: Vec::new(), depth: 0 };
        let is_read = reader.alternatives().is_some() && reader.rest.peek().is_none();
        reader.steps.push(PatternStep::Found);
        Self { program: (is_read && reader.steps.len() <= MAX_STEPS).then_some(reader.steps) }
    }

    /// Whether it is found in a key; none if that is not known.
    pub(super) fn matches(&self, key: &str, budget: &mut StepBudget) -> Result<Option<bool>, BudgetSpent> {
        let Some(program) = &self.program else { return Ok(None) };
        budget.spend_on(1 + program.len().saturating_mul(key.len()) / PER_STEP)?;
        Ok(Some(is_found(program, key)))
    }

    /// The same for callers without a budget: keys and patterns are short there.
    pub(super) fn is_found_in(&self, key: &str) -> bool {
        self.program.as_ref().is_some_and(|program| is_found(program, key))
    }
}

/// Runs all paths through a program side by side.
fn is_found(program: &[PatternStep], key: &str) -> bool {
    let mut letters = key.chars();
    let (mut here, mut next) = (Vec::new(), Vec::new());
    let mut is_there = vec![usize::MAX; program.len()];
    for at in 0.. {
        let letter = letters.next();
        // The pattern may begin at each character.
        let mut open = vec![0];
        open.extend(here.drain(..).rev());
        while let Some(step) = open.pop() {
            if std::mem::replace(&mut is_there[step], at) == at {
                continue;
            }
            match &program[step] {
                PatternStep::One(class) => {
                    if letter.is_some_and(|letter| class.has(letter)) {
                        next.push(step + 1);
                    }
                }
                PatternStep::Fork(one, other) => open.extend([*other, *one]),
                PatternStep::Go(to) => open.push(*to),
                PatternStep::Start if at == 0 => open.push(step + 1),
                PatternStep::End if letter.is_none() => open.push(step + 1),
                PatternStep::Start | PatternStep::End => {}
                PatternStep::Found => return true,
            }
        }
        if letter.is_none() {
            return false;
        }
        std::mem::swap(&mut here, &mut next);
    }
    false
}

impl CharClass {
    fn one(letter: char) -> Self {
        Self { ranges: vec![(letter, letter)], ..Self::default() }
    }

    fn set(set: char, is_negated: bool) -> Self {
        Self { sets: vec![(set, is_negated)], ..Self::default() }
    }

    fn has(&self, letter: char) -> bool {
        let is_in = |set: char| match set {
            'd' => letter.is_ascii_digit(),
            'w' => letter.is_ascii_alphanumeric() || letter == '_',
            's' => letter.is_whitespace() || letter == '\u{feff}',
            _ => matches!(letter, '\n' | '\r' | '\u{2028}' | '\u{2029}'),
        };
        let is_listed = self.ranges.iter().any(|&(from, to)| (from..=to).contains(&letter))
            || self.sets.iter().any(|&(set, is_negated)| is_in(set) != is_negated);
        is_listed != self.is_negated
    }
}

/// Reads a pattern and writes its program; none where it cannot.
struct PatternReader<'p> {
    rest: std::iter::Peekable<std::str::Chars<'p>>,
    steps: Vec<PatternStep>,
    depth: usize,
}

impl PatternReader<'_> {
    fn alternatives(&mut self) -> Option<()> {
        let start = self.steps.len();
        self.sequence()?;
        let mut ends = Vec::new();
        while self.rest.next_if_eq(&'|').is_some() {
            // The steps compiled so far move behind a fork.
            self.insert(start, PatternStep::Fork(start + 1, self.steps.len() + 2))?;
            ends.iter_mut().for_each(|end| *end += 1);
            ends.push(self.steps.len());
            self.steps.push(PatternStep::Go(0));
            self.sequence()?;
        }
        let end = self.steps.len();
        for at in ends {
            self.steps[at] = PatternStep::Go(end);
        }
        Some(())
    }

    fn sequence(&mut self) -> Option<()> {
        while let Some(&letter) = self.rest.peek() {
            if matches!(letter, '|' | ')') {
                break;
            }
            self.rest.next();
            let start = self.steps.len();
            let may_repeat = !matches!(letter, '^' | '$');
            match letter {
                '^' => self.steps.push(PatternStep::Start),
                '$' => self.steps.push(PatternStep::End),
                '(' => self.group()?,
                '[' => {
                    let class = self.class()?;
                    self.steps.push(PatternStep::One(class));
                }
                '.' => self.steps.push(PatternStep::One(CharClass::set('n', true))),
                '\\' => {
                    let class = self.escape()?;
                    self.steps.push(PatternStep::One(class));
                }
                '*' | '+' | '?' | '{' | '}' | ']' => return None,
                _ => self.steps.push(PatternStep::One(CharClass::one(letter))),
            }
            self.repeat(start, may_repeat)?;
            if self.steps.len() > MAX_STEPS {
                return None;
            }
        }
        Some(())
    }

    fn group(&mut self) -> Option<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        if self.rest.next_if_eq(&'?').is_some() {
            self.rest.next_if_eq(&':')?;
        }
        self.alternatives()?;
        self.depth -= 1;
        self.rest.next_if_eq(&')').map(|_| ())
    }

    /// Repeats the steps from `start` on, as often as the pattern says.
    fn repeat(&mut self, start: usize, may_repeat: bool) -> Option<()> {
        let (least, most) = match self.rest.peek() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('{') => {
                self.rest.next();
                self.counts()?
            }
            _ => return Some(()),
        };
        self.rest.next_if(|letter| matches!(letter, '*' | '+' | '?' | '}'));
        // Lazy or greedy makes no difference to whether there is a match.
        self.rest.next_if_eq(&'?');
        let is_twice = matches!(self.rest.peek(), Some('*' | '+' | '?' | '{'));
        if !may_repeat || is_twice || most.is_some_and(|most| most < least) {
            return None;
        }
        let part: Vec<PatternStep> = self.steps.drain(start..).collect();
        let copies = most.unwrap_or(least.max(1)).max(least);
        if copies.saturating_mul(part.len() + 1) > MAX_STEPS {
            return None;
        }
        for _ in 0..least {
            self.copy(&part, start);
        }
        match most {
            None if least > 0 => {
                let again = self.steps.len() - part.len();
                self.steps.push(PatternStep::Fork(again, self.steps.len() + 1));
            }
            None => {
                let fork = self.steps.len();
                self.steps.push(PatternStep::Fork(fork + 1, fork + part.len() + 2));
                self.copy(&part, start);
                self.steps.push(PatternStep::Go(fork));
            }
            Some(most) => {
                let end = self.steps.len() + (most - least) * (part.len() + 1);
                for _ in least..most {
                    self.steps.push(PatternStep::Fork(self.steps.len() + 1, end));
                    self.copy(&part, start);
                }
            }
        }
        Some(())
    }

    /// Copies steps that stood at `from`.
    fn copy(&mut self, part: &[PatternStep], from: usize) {
        let by = self.steps.len() - from;
        self.steps.extend(part.iter().map(|step| match step {
            PatternStep::Fork(one, other) => PatternStep::Fork(one + by, other + by),
            PatternStep::Go(to) => PatternStep::Go(to + by),
            step => step.clone(),
        }));
    }

    /// Inserts a step at `at`.
    fn insert(&mut self, at: usize, step: PatternStep) -> Option<()> {
        let part: Vec<PatternStep> = self.steps.drain(at..).collect();
        self.steps.push(step);
        self.copy(&part, at);
        (self.steps.len() <= MAX_STEPS).then_some(())
    }

    /// Reads `2}`, `2,}` and `2,5}`, up to the brace.
    fn counts(&mut self) -> Option<(usize, Option<usize>)> {
        let least = self.count()?;
        let most = match self.rest.next_if_eq(&',') {
            None => Some(least),
            Some(_) if self.rest.peek() == Some(&'}') => None,
            Some(_) => Some(self.count()?),
        };
        (self.rest.peek() == Some(&'}')).then_some((least, most))
    }

    fn count(&mut self) -> Option<usize> {
        let mut count = None;
        while let Some(digit) = self.rest.peek().and_then(|letter| letter.to_digit(10)) {
            self.rest.next();
            count = Some(count.unwrap_or(0usize).saturating_mul(10).saturating_add(digit as usize));
        }
        count
    }

    /// Reads the characters between brackets.
    fn class(&mut self) -> Option<CharClass> {
        let mut class =
            CharClass { is_negated: self.rest.next_if_eq(&'^').is_some(), ..CharClass::default() };
        loop {
            let letter = self.rest.next()?;
            let one = match letter {
                ']' => return Some(class),
                '\\' if self.rest.next_if_eq(&'b').is_some() => CharClass::one('\u{8}'),
                '\\' => self.escape()?,
                _ => CharClass::one(letter),
            };
            let Some(&(from, _)) = one.ranges.first() else {
                class.sets.extend(one.sets);
                continue;
            };
            let mut to = from;
            if self.rest.peek() == Some(&'-') {
                self.rest.next();
                match self.rest.peek() {
                    Some(']') => class.ranges.push(('-', '-')),
                    _ => {
                        to = match self.rest.next()? {
                            '\\' => self.escape()?.ranges.first()?.0,
                            letter => letter,
                        };
                    }
                }
            }
            if to < from {
                return None;
            }
            class.ranges.push((from, to));
        }
    }

    /// Reads the character class behind a backslash.
    fn escape(&mut self) -> Option<CharClass> {
        let letter = self.rest.next()?;
        let one = match letter {
            'd' | 'w' | 's' => return Some(CharClass::set(letter, false)),
            'D' | 'W' | 'S' => return Some(CharClass::set(letter.to_ascii_lowercase(), true)),
            't' => '\t',
            'n' => '\n',
            'r' => '\r',
            'f' => '\u{c}',
            'v' => '\u{b}',
            'x' => self.code(2)?,
            'u' => self.code(4)?,
            _ if letter.is_alphanumeric() => return None,
            _ => letter,
        };
        Some(CharClass::one(one))
    }

    fn code(&mut self, digits: usize) -> Option<char> {
        let mut code = 0;
        for _ in 0..digits {
            code = code * 16 + self.rest.next()?.to_digit(16)?;
        }
        char::from_u32(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_found_as_the_standard_says() {
        for (pattern, found, others) in [
            ("^(x|y)-", &["x-a", "y-"][..], &["z-a", "ax-", "x"][..]),
            ("^[xy]-", &["x-a", "y-"], &["z-a", "-"]),
            ("^x-[a-z]+$", &["x-a", "x-abc"], &["x-", "x-A", "x-a1", "ax-a"]),
            ("", &["", "a"], &[]),
            ("^$", &[""], &["a"]),
            ("a.c", &["xabcx", "aéc"], &["ac", "a\nc"]),
            ("^(?:ab|c(d|e)?)*$", &["", "ab", "cabcd", "ceab"], &["a", "cf", "abd"]),
            ("^a{2,3}$", &["aa", "aaa"], &["a", "aaaa"]),
            ("^(ab){2}$", &["abab"], &["ab", "ababab"]),
            ("^a{2,}?$", &["aa", "aaaaa"], &["a"]),
            (r"^\d+\.\d+$", &["1.2", "10.25"], &["1", "1x2", "a1.2"]),
            (r"^[\w-]+$", &["a-b_9"], &["a b", ""]),
            (r"^[^\s/]+$", &["a-b"], &["a b", "a/b", ""]),
            (r"^[A-Z_][A-Z0-9_]*$", &["A_9", "_"], &["a", "9A"]),
            (r"^\u0061\x62$", &["ab"], &["a"]),
            ("a|^b$", &["xax", "b"], &["bb"]),
            ("^(a|b|c|)$", &["a", "b", "c", ""], &["d", "ab"]),
            ("[a-]$", &["a", "b-"], &["b"]),
        ] {
            let pattern_read = KeyPattern::new(pattern);
            let matches = |key: &&str| pattern_read.matches(key, &mut StepBudget::default()).ok().flatten();
            for key in found {
                assert_eq!(matches(key), Some(true), "{pattern:?} in {key:?}");
            }
            for key in others {
                assert_eq!(matches(key), Some(false), "{pattern:?} in {key:?}");
            }
        }
    }

    #[test]
    fn others_are_not_judged() {
        for pattern in [
            "^(?!x)", "(?<=a)b", r"(a)\1", r"\bx", r"\p{L}", "a**", "a{3,2}", "(", ")", "[b-a]", "a{9999}",
            "*a", "x{",
        ] {
            let matches = KeyPattern::new(pattern).matches("x", &mut StepBudget::default());
            assert!(matches!(matches, Ok(None)), "{pattern}");
        }
        let deep = format!("{}a{}", "(".repeat(10_000), ")".repeat(10_000));
        assert!(KeyPattern::new(&deep).program.is_none());
    }

    #[test]
    fn a_run_takes_what_it_says() {
        let pattern = KeyPattern::new("^(a*)*(a|a)*b$");
        let key = "a".repeat(2_000);
        assert!(matches!(pattern.matches(&key, &mut StepBudget::default()), Ok(Some(false))));
        assert!(pattern.matches(&key, &mut StepBudget::new(10)).is_err());
    }
}
