//! The kernel's own description of an event: `events/<system>/<event>/format`, and of a page:
//! `events/header_page`.

/// Where a field lies in an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Bytes from the event's first.
    pub offset: usize,
    pub size: usize,
    /// Whether it is a number below zero when its highest bit is set.
    pub signed: bool,
}

impl Field {
    /// The field as a number, if the event is long enough and the field has a number's size.
    #[inline]
    pub fn number(self, event: &[u8]) -> Option<i64> {
        let bytes = event.get(self.offset..self.offset.checked_add(self.size)?)?;
        Some(match (bytes.len(), self.signed) {
            (1, true) => i64::from(bytes[0].cast_signed()),
            (1, false) => i64::from(bytes[0]),
            (2, true) => i64::from(i16::from_le_bytes(bytes.try_into().ok()?)),
            (2, false) => i64::from(u16::from_le_bytes(bytes.try_into().ok()?)),
            (4, true) => i64::from(i32::from_le_bytes(bytes.try_into().ok()?)),
            (4, false) => i64::from(u32::from_le_bytes(bytes.try_into().ok()?)),
            // Addresses keep their bits.
            (8, _) => i64::from_le_bytes(bytes.try_into().ok()?),
            _ => return None,
        })
    }

    /// The `index`-th of the field's 64-bit words.
    pub fn word(self, event: &[u8], index: usize) -> Option<u64> {
        let within = index.checked_mul(8).filter(|from| from + 8 <= self.size)?;
        let from = self.offset.checked_add(within)?;
        Some(u64::from_le_bytes(event.get(from..from.checked_add(8)?)?.try_into().ok()?))
    }

    /// The field as text up to its first zero.
    pub fn text(self, event: &[u8]) -> Option<&[u8]> {
        let bytes = event.get(self.offset..self.offset.checked_add(self.size)?)?;
        Some(bytes.split(|&byte| byte == 0).next().unwrap_or_default())
    }

    /// The text that a `__data_loc` field points to: the length in the upper half, where it starts in the
    /// lower.
    pub fn far_text(self, event: &[u8]) -> Option<&[u8]> {
        let location = u32::try_from(self.number(event)?).ok()?;
        Self { offset: (location & 0xffff) as usize, size: (location >> 16) as usize, signed: false }.text(event)
    }
}

/// What the kernel says about an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFormat {
    /// What stands in the event's first two bytes.
    pub id: u16,
    fields: Vec<(String, Field)>,
    /// The tables by which the kernel would print numbers as words, in their order.
    pub symbols: Vec<Vec<(i64, String)>>,
}

impl EventFormat {
    /// Reads a `format` file.
    pub fn parse(text: &str) -> Result<Self, String> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:")).ok_or("it has no line ID:")?;
        let id = id.trim().parse().map_err(|_| format!("its ID is {:?}", id.trim()))?;
        let fields = parse_fields(text)?;
        let symbols = text.split("__print_symbolic(").skip(1).map(parse_symbols).collect();
        Ok(Self { id, fields, symbols })
    }

    /// A field by its name.
    pub fn field(&self, name: &str) -> Option<Field> {
        self.fields.iter().find(|(known, _)| known == name).map(|&(_, field)| field)
    }

    /// A field that must be there.
    pub fn required(&self, name: &str) -> Result<Field, String> {
        self.field(name).ok_or_else(|| format!("it has no field {name}"))
    }
}

/// How a page of a ring buffer is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageFormat {
    /// Where the events start: after the time and the length.
    pub data_offset: usize,
    /// The whole page, which is what one reading gives.
    pub page_bytes: usize,
}

impl PageFormat {
    /// Reads `events/header_page`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let fields = parse_fields(text)?;
        let find = |name: &str| {
            let found = fields.iter().find(|(known, _)| known == name);
            found.map(|&(_, field)| field).ok_or_else(|| format!("it has no field {name}"))
        };
        let (time, commit, data) = (find("timestamp")?, find("commit")?, find("data")?);
        // 32-bit kernels have a shorter length; the agent is built for 64-bit ones.
        if (time.offset, time.size, commit.offset, commit.size, data.offset) != (0, 8, 8, 8, 16) {
            return Err("its fields are not those of a 64-bit kernel".to_owned());
        }
        Ok(Self { data_offset: data.offset, page_bytes: data.offset + data.size })
    }
}

fn parse_fields(text: &str) -> Result<Vec<(String, Field)>, String> {
    let lines = text.lines().filter_map(|line| line.trim_start().strip_prefix("field:"));
    lines.map(|line| parse_field(line).ok_or_else(|| format!("its field {line:?} is not understood"))).collect()
}

/// Reads `pid_t prev_pid; offset:24; size:4; signed:1;` and `__data_loc char[] name; ...`.
fn parse_field(line: &str) -> Option<(String, Field)> {
    let mut parts = line.split(';').map(str::trim);
    let declaration = parts.next()?;
    let name = declaration.split_ascii_whitespace().last()?.trim_start_matches('*');
    let name = name.split('[').next()?;
    let mut number = |key: &str| -> Option<usize> { parts.next()?.strip_prefix(key)?.parse().ok() };
    let field =
        Field { offset: number("offset:")?, size: number("size:")?, signed: number("signed:").unwrap_or(0) == 1 };
    Some((name.to_owned(), field))
}

/// Reads `..., { 0, "HI" }, { 0x040 + 1, "DB excp" })`; what is not of that form is left out.
fn parse_symbols(text: &str) -> Vec<(i64, String)> {
    let mut symbols = Vec::new();
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        // The end of this table comes before the next entry.
        if rest[..open].contains(')') && !symbols.is_empty() {
            break;
        }
        let Some(close) = rest[open..].find('}') else { break };
        let entry = &rest[open + 1..open + close];
        if let Some((number, name)) = entry.split_once(',')
            && let Some(number) = parse_sum(number)
        {
            symbols.push((number, name.trim().trim_matches('"').to_owned()));
        }
        rest = &rest[open + close + 1..];
    }
    symbols
}

fn parse_sum(text: &str) -> Option<i64> {
    text.split('+').map(str::trim).map(parse_number).sum()
}

fn parse_number(text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOFTIRQ: &str = "name: softirq_entry\nID: 223\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:unsigned int vec;\toffset:8;\tsize:4;\tsigned:0;\n\n\
        print fmt: \"vec=%u [action=%s]\", REC->vec, __print_symbolic(REC->vec, { 0, \"HI\" }, { 0x040 + 1, \"TIMER\" })\n";

    #[test]
    fn a_description_gives_id_fields_and_words() {
        let format = EventFormat::parse(SOFTIRQ).unwrap();
        assert_eq!(format.id, 223);
        assert_eq!(format.field("vec"), Some(Field { offset: 8, size: 4, signed: false }));
        assert_eq!(format.field("common_pid"), Some(Field { offset: 4, size: 4, signed: true }));
        assert_eq!(format.symbols, [vec![(0, "HI".to_owned()), (65, "TIMER".to_owned())]]);
    }

    #[test]
    fn the_words_of_two_tables_are_not_mixed() {
        let text = "ID: 1\nprint fmt: (REC->isa == 1) ? __print_symbolic(REC->r & 0xffff, { 12, \"HLT\" }) : \
            __print_symbolic(REC->r, { 0x078, \"hlt\" }), (1) ? __print_flags(REC->r, \" \", { 9, \"F\" }) : \"\"";
        let symbols = EventFormat::parse(text).unwrap().symbols;
        assert_eq!(symbols, [vec![(12, "HLT".to_owned())], vec![(120, "hlt".to_owned())]]);
    }

    #[test]
    fn a_description_without_what_is_needed_says_so() {
        assert_eq!(EventFormat::parse("name: x").unwrap_err(), "it has no line ID:");
        assert!(EventFormat::parse("ID: 70000").unwrap_err().contains("70000"));
        let missing = EventFormat::parse(SOFTIRQ).unwrap().required("irq").unwrap_err();
        assert_eq!(missing, "it has no field irq");
    }

    #[test]
    fn a_page_is_as_long_as_its_header_says() {
        let text = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
            \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
            \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
            \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
        assert_eq!(PageFormat::parse(text), Ok(PageFormat { data_offset: 16, page_bytes: 4096 }));
        assert!(PageFormat::parse(&text.replace("size:8", "size:4")).is_err());
    }

    #[test]
    fn a_field_beyond_the_event_is_no_number() {
        let field = Field { offset: 2, size: 4, signed: true };
        assert_eq!(field.number(&[0, 0, 0xff, 0xff, 0xff, 0xff]), Some(-1));
        assert_eq!(field.number(&[0, 0, 0xff, 0xff, 0xff]), None);
        let far = Field { offset: 0, size: 4, signed: false };
        assert_eq!(far.far_text(&[4, 0, 3, 0, b'a', b'b', 0]), Some(&b"ab"[..]));
        assert_eq!(far.far_text(&[4, 0, 4, 0, b'a', b'b', 0]), None);
    }
}
