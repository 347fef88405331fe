//! Values of every type that a key can hold, made at random, and written as MsgPack in any legal encoding.
//!
//! What makes a hint or a comparison lie is seldom two values from all over a type: it is two that are almost equal, or
//! equal and written in two ways, or at an edge. So values come from a [`Source`], which draws some from a small pool,
//! some beside what is in the pool ([`near`]), some from the edges, and few from all over.

use fastrand::Rng;
use num_bigint::BigUint;

/// A type of a field or part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    Unsigned,
    Integer,
    Number,
    Double,
    Float32,
    Float64,
    Decimal,
    String,
    Varbinary,
    Boolean,
    Uuid,
    Datetime,
    Scalar,
    Int8,
    Int16,
    Int32,
    Int64,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
}

use Type::*;

impl Type {
    pub const ALL: [Self; 21] = [
        Unsigned, Integer, Number, Double, Float32, Float64, Decimal, String, Varbinary, Boolean, Uuid,
        Datetime, Scalar, Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Unsigned => "unsigned",
            Integer => "integer",
            Number => "number",
            Double => "double",
            Float32 => "float32",
            Float64 => "float64",
            Decimal => "decimal",
            String => "string",
            Varbinary => "varbinary",
            Boolean => "boolean",
            Uuid => "uuid",
            Datetime => "datetime",
            Scalar => "scalar",
            Int8 => "int8",
            Int16 => "int16",
            Int32 => "int32",
            Int64 => "int64",
            Uint8 => "uint8",
            Uint16 => "uint16",
            Uint32 => "uint32",
            Uint64 => "uint64",
        }
    }

    /// The least and the greatest integer of the type; nothing where it takes none.
    fn integers(self) -> Option<(i128, i128)> {
        Some(match self {
            Unsigned | Uint64 => (0, u64::MAX.into()),
            Integer | Number | Double | Scalar => (i64::MIN.into(), u64::MAX.into()),
            Int8 => (i8::MIN.into(), i8::MAX.into()),
            Int16 => (i16::MIN.into(), i16::MAX.into()),
            Int32 => (i32::MIN.into(), i32::MAX.into()),
            Int64 => (i64::MIN.into(), i64::MAX.into()),
            Uint8 => (0, u8::MAX.into()),
            Uint16 => (0, u16::MAX.into()),
            Uint32 => (0, u32::MAX.into()),
            _ => return None,
        })
    }

    /// Whether only encodings without a sign are integers of the type.
    fn is_unsigned(self) -> bool {
        matches!(self, Unsigned | Uint8 | Uint16 | Uint32 | Uint64)
    }

    pub fn takes(self, value: &Value) -> bool {
        match value {
            Value::Bool(_) => matches!(self, Boolean | Scalar),
            Value::Int(int) => {
                self.integers().is_some_and(|(least, greatest)| (least..=greatest).contains(int))
            }
            Value::Float(_) => matches!(self, Number | Double | Scalar | Float32),
            Value::Double(_) => matches!(self, Number | Double | Scalar | Float64),
            Value::Decimal { .. } => matches!(self, Number | Decimal | Scalar),
            Value::Str(_) => matches!(self, String | Scalar),
            Value::Bin(_) => matches!(self, Varbinary | Scalar),
            Value::Uuid(_) => matches!(self, Uuid | Scalar),
            Value::Datetime { .. } => matches!(self, Datetime | Scalar),
        }
    }

    /// A type of a part that reads fields of this type: the same, or one that contains it.
    pub fn widened(self, random: &mut Rng) -> Self {
        let wider: &[Self] = match self {
            Unsigned | Uint8 | Uint16 | Uint32 | Uint64 => &[Unsigned, Integer, Number, Double, Scalar],
            Integer | Int8 | Int16 | Int32 | Int64 => &[Integer, Number, Double, Scalar],
            Double | Float32 | Float64 => &[Double, Number, Scalar],
            Number | Decimal => &[Number, Scalar],
            _ => &[Scalar],
        };
        // The odd one of Tarantool: a field of type double is narrowed by a part of type number, and takes decimals.
        let wider = pick(random, wider);
        if random.u8(..3) == 0 && (self, wider) != (Double, Number) { wider } else { self }
    }
}

/// A value as it was meant, before it has an encoding.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Bool(bool),
    Int(i128),
    /// The bits of a float of 4 bytes.
    Float(u32),
    /// The bits of a float of 8 bytes.
    Double(u64),
    /// `digits * 10^-scale`; each digit 0 to 9, at most 76 of them.
    Decimal {
        negative: bool,
        digits: Vec<u8>,
        scale: i32,
    },
    Str(Vec<u8>),
    Bin(Vec<u8>),
    Uuid([u8; 16]),
    Datetime {
        seconds: i64,
        nanoseconds: u32,
        offset: i16,
        zone: i16,
    },
}

/// One of a list.
pub fn pick<T: Clone>(random: &mut Rng, list: &[T]) -> T {
    list[random.usize(..list.len())].clone()
}

/// Appends the value; of several legal encodings any, where the type allows it.
pub fn encode(random: &mut Rng, field_type: Type, value: &Value, out: &mut Vec<u8>) {
    let wide = random.u8(..4) == 0;
    match value {
        Value::Bool(value) => out.push(0xc2 + u8::from(*value)),
        Value::Int(int) => encode_int(random, *int, wide, !field_type.is_unsigned(), out),
        Value::Float(bits) => {
            out.push(0xca);
            out.extend(bits.to_be_bytes());
        }
        Value::Double(bits) => {
            out.push(0xcb);
            out.extend(bits.to_be_bytes());
        }
        Value::Decimal { negative, digits, scale } => {
            let mut payload = Vec::new();
            encode_int(random, i128::from(*scale), wide, true, &mut payload);
            let sign = pick(random, if *negative { &[0xd, 0xd, 0xb] } else { &[0xc, 0xa, 0xf] });
            let mut halves = digits.clone();
            halves.push(sign);
            let zeros = halves.len() % 2 + if wide { 2 * random.usize(..3) } else { 0 };
            halves.splice(..0, std::iter::repeat_n(0, zeros));
            payload.extend(halves.chunks(2).map(|pair| pair[0] << 4 | pair[1]));
            encode_ext(random, 1, &payload, wide, out);
        }
        Value::Str(bytes) => match bytes.len() {
            length @ ..=31 if !wide => {
                out.push(0xa0 | length as u8);
                out.extend(bytes);
            }
            _ => encode_long(random, [0xd9, 0xda, 0xdb], bytes, wide, out),
        },
        Value::Bin(bytes) => encode_long(random, [0xc4, 0xc5, 0xc6], bytes, wide, out),
        Value::Uuid(bytes) => encode_ext(random, 2, bytes, wide, out),
        Value::Datetime { seconds, nanoseconds, offset, zone } => {
            let mut payload = seconds.to_le_bytes().to_vec();
            if *nanoseconds != 0 || *offset != 0 || *zone != 0 || wide {
                payload.extend(nanoseconds.to_le_bytes());
                payload.extend(offset.to_le_bytes());
                payload.extend(zone.to_le_bytes());
            }
            let wide = random.u8(..8) == 0;
            encode_ext(random, 4, &payload, wide, out);
        }
    }
}

fn encode_int(random: &mut Rng, int: i128, wide: bool, signed: bool, out: &mut Vec<u8>) {
    // Every encoding that holds the number; the shortest one is first of its kind.
    let mut ways: Vec<Vec<u8>> = Vec::new();
    if let Ok(int) = u64::try_from(int) {
        if int <= 0x7f {
            ways.push(vec![int as u8]);
        }
        let bytes = int.to_be_bytes();
        for (head, width) in [(0xcc, 1), (0xcd, 2), (0xce, 4), (0xcf, 8)] {
            if bytes[..8 - width].iter().all(|&byte| byte == 0) {
                ways.push([&[head], &bytes[8 - width..]].concat());
            }
        }
    }
    if let (true, Ok(int)) = (signed && (wide || ways.is_empty()), i64::try_from(int)) {
        if (-32..0).contains(&int) {
            ways.push(vec![int as u8]);
        }
        let bytes = int.to_be_bytes();
        for (head, width) in [(0xd0, 1), (0xd1, 2), (0xd2, 4), (0xd3, 8)] {
            let shift = 64 - 8 * width as u32;
            if int << shift >> shift == int {
                ways.push([&[head], &bytes[8 - width..]].concat());
            }
        }
    }
    let way = if wide { random.usize(..ways.len()) } else { 0 };
    out.extend(&ways[way]);
}

fn encode_long(random: &mut Rng, heads: [u8; 3], bytes: &[u8], wide: bool, out: &mut Vec<u8>) {
    let least = match bytes.len() {
        ..0x100 => 0,
        0x100..0x1_0000 => 1,
        _ => 2,
    };
    let width = if wide { random.usize(least..3) } else { least };
    out.push(heads[width]);
    out.extend(&(bytes.len() as u32).to_be_bytes()[4 - (1 << width)..]);
    out.extend(bytes);
}

fn encode_ext(random: &mut Rng, kind: u8, payload: &[u8], wide: bool, out: &mut Vec<u8>) {
    match payload.len() {
        length @ (1 | 2 | 4 | 8 | 16) if !wide => {
            out.extend([0xd4 + length.trailing_zeros() as u8, kind]);
        }
        length => {
            let width = if wide { random.usize(..3) } else { 0 };
            out.push(0xc7 + width as u8);
            out.extend(&(length as u32).to_be_bytes()[4 - (1 << width)..]);
            out.push(kind);
        }
    }
    out.extend(payload);
}

/// Where a field's values come from.
#[derive(Debug, Clone)]
pub struct Source {
    field_type: Type,
    style: Style,
    pool: Vec<Value>,
    /// How far one that counts gets.
    pub span: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// One of the pool.
    Few,
    /// Something beside one of the pool.
    Near,
    /// Anything.
    Fresh,
    /// All of that.
    Mixed,
    /// Mostly one value, seldom another.
    Skewed,
    /// Numbers and strings that count up from the first one of the pool.
    Counting,
}

impl Source {
    pub fn new(random: &mut Rng, field_type: Type) -> Self {
        let styles = [Style::Few, Style::Near, Style::Fresh, Style::Mixed, Style::Skewed, Style::Counting];
        let style = pick(random, &styles);
        Self::styled(random, field_type, style)
    }

    /// One that seldom draws a value twice.
    pub fn wide(random: &mut Rng, field_type: Type) -> Self {
        let style = if random.bool() { Style::Fresh } else { Style::Counting };
        Self::styled(random, field_type, style)
    }

    fn styled(random: &mut Rng, field_type: Type, style: Style) -> Self {
        let first = fresh(random, field_type);
        let mut pool = vec![first];
        for _ in 0..random.usize(..6) {
            let next = match random.u8(..3) {
                0 => fresh(random, field_type),
                _ => {
                    let first = pick(random, &pool);
                    near_within(random, field_type, &first)
                }
            };
            pool.push(next);
        }
        if random.u8(..4) == 0 {
            pool.truncate(1);
        }
        Self { field_type, style, pool, span: 1000 }
    }

    pub fn draw(&self, random: &mut Rng) -> Value {
        let pooled = &pick(random, &self.pool);
        match self.style {
            Style::Few => pooled.clone(),
            Style::Near => self.beside(random, pooled),
            Style::Fresh => fresh(random, self.field_type),
            Style::Mixed => match random.u8(..4) {
                0 => pooled.clone(),
                1 => fresh(random, self.field_type),
                _ => self.beside(random, pooled),
            },
            Style::Skewed => match random.u8(..20) {
                0 => fresh(random, self.field_type),
                _ => self.pool[0].clone(),
            },
            Style::Counting => self.counted(random),
        }
    }

    fn beside(&self, random: &mut Rng, value: &Value) -> Value {
        let mut value = value.clone();
        for _ in 0..random.usize(..3) {
            value = near_within(random, self.field_type, &value);
        }
        value
    }

    /// One of about `span` values that follow the first one of the pool; other types than numbers, strings and
    /// moments give anything.
    fn counted(&self, random: &mut Rng) -> Value {
        let step = random.u32(..self.span);
        let value = match &self.pool[0] {
            Value::Int(int) => Value::Int(int + i128::from(step)),
            Value::Float(bits) => Value::Float((f32::from_bits(*bits).trunc() + step as f32).to_bits()),
            Value::Double(bits) => Value::Double((f64::from_bits(*bits) + f64::from(step) / 4.0).to_bits()),
            Value::Decimal { negative, digits, scale } => {
                let digits = (BigUint::from_radix_be(digits, 10).unwrap_or_default() + step).to_radix_be(10);
                Value::Decimal { negative: *negative, digits, scale: *scale }
            }
            Value::Str(bytes) => Value::Str([&bytes[..], step.to_string().as_bytes()].concat()),
            Value::Bin(bytes) => Value::Bin([&bytes[..], &step.to_be_bytes()].concat()),
            Value::Uuid(bytes) => {
                Value::Uuid((u128::from_be_bytes(*bytes).wrapping_add(step.into())).to_be_bytes())
            }
            Value::Datetime { seconds, nanoseconds, .. } => {
                let seconds = seconds + i64::from(step / 4);
                Value::Datetime { seconds, nanoseconds: *nanoseconds, offset: 0, zone: 0 }
            }
            _ => fresh(random, self.field_type),
        };
        let is_legal = self.field_type.takes(&value) && is_legal(&value);
        if is_legal { value } else { fresh(random, self.field_type) }
    }
}

const SECONDS_MIN: i64 = -185_604_722_870_400;
const SECONDS_MAX: i64 = 185_480_451_417_600;

fn is_legal(value: &Value) -> bool {
    match value {
        Value::Decimal { digits, scale, .. } => {
            let digits = digits.iter().skip_while(|&&digit| digit == 0).count() as i64;
            let adjusted = digits.max(1) - 1 - i64::from(*scale);
            digits <= 76 && (-999_999..=999_999).contains(&adjusted)
        }
        Value::Datetime { seconds, .. } => (SECONDS_MIN..=SECONDS_MAX).contains(seconds),
        _ => true,
    }
}

/// Something beside the value that the type takes, or the value.
fn near_within(random: &mut Rng, field_type: Type, value: &Value) -> Value {
    for _ in 0..4 {
        let near = near(random, value);
        if field_type.takes(&near) && is_legal(&near) {
            return near;
        }
    }
    value.clone()
}

/// The exact digits of a double: a decimal of as many digits as it takes, and its scale.
fn expansion(double: f64) -> Option<(bool, Vec<u8>, i32)> {
    if !double.is_finite() {
        return None;
    }
    let bits = double.to_bits();
    let stored = (bits >> 52 & 0x7ff) as i32;
    let fraction = bits & ((1 << 52) - 1);
    let (mantissa, power) = if stored == 0 { (fraction, -1074) } else { (fraction | 1 << 52, stored - 1075) };
    let twos = mantissa.trailing_zeros().min(63).min(if power < 0 { power.unsigned_abs() } else { 0 });
    let (mantissa, power) = (BigUint::from(mantissa >> twos), power + twos as i32);
    let (whole, scale) = if power >= 0 {
        (mantissa << power.unsigned_abs(), 0)
    } else {
        (mantissa * BigUint::from(5u8).pow(power.unsigned_abs()), -power)
    };
    Some((double < 0.0, whole.to_radix_be(10), scale))
}

/// Something that is hard to tell from the value, maybe of another class.
fn near(random: &mut Rng, value: &Value) -> Value {
    match value {
        Value::Bool(value) => Value::Bool(!value),
        Value::Int(int) => match random.u8(..6) {
            0 => Value::Double((*int as f64).to_bits()),
            1 => Value::Float((*int as f32).to_bits()),
            2 => decimal_of(*int),
            3 => Value::Int(int + 1),
            4 => Value::Int(int - 1),
            _ => Value::Int(int + i128::from(random.i16(-300..300))),
        },
        Value::Float(bits) => {
            let float = f32::from_bits(*bits);
            match random.u8(..5) {
                0 => Value::Float(float.next_up().to_bits()),
                1 => Value::Float(float.next_down().to_bits()),
                2 => Value::Float((-float).to_bits()),
                3 if float.is_finite() => Value::Int(float as i128),
                _ => Value::Double(f64::from(float).to_bits()),
            }
        }
        Value::Double(bits) => near_double(random, f64::from_bits(*bits)),
        Value::Decimal { negative, digits, scale } => near_decimal(random, *negative, digits, *scale),
        Value::Str(bytes) if random.u8(..16) == 0 => Value::Bin(bytes.clone()),
        Value::Bin(bytes) if random.u8(..16) == 0 => Value::Str(bytes.clone()),
        Value::Str(bytes) => Value::Str(near_bytes(random, bytes)),
        Value::Bin(bytes) => Value::Bin(near_bytes(random, bytes)),
        Value::Uuid(bytes) => {
            let mut bytes = *bytes;
            let at = random.usize(..16);
            bytes[at] = bytes[at].wrapping_add(if random.bool() { 1 } else { 0xff });
            Value::Uuid(bytes)
        }
        &Value::Datetime { seconds, nanoseconds, offset, zone } => {
            let (mut seconds, mut nanoseconds, mut offset, mut zone) = (seconds, nanoseconds, offset, zone);
            match random.u8(..6) {
                0 => seconds += 1,
                1 => seconds -= 1,
                2 => nanoseconds = (nanoseconds + 1) % 1_000_000_000,
                3 => nanoseconds = nanoseconds.saturating_sub(1),
                4 => {
                    nanoseconds =
                        pick(random, &[0, 999_999_999, 500_000_000, nanoseconds ^ 16]) % 1_000_000_000
                }
                _ => (offset, zone) = (random.i16(-720..=840), random.i16(0..=1024)),
            }
            Value::Datetime { seconds, nanoseconds, offset, zone }
        }
    }
}

fn decimal_of(int: i128) -> Value {
    let digits = BigUint::from(int.unsigned_abs()).to_radix_be(10);
    Value::Decimal { negative: int < 0, digits, scale: 0 }
}

fn near_double(random: &mut Rng, double: f64) -> Value {
    match random.u8(..8) {
        0 | 1 => Value::Double(double.next_up().to_bits()),
        2 => Value::Double(double.next_down().to_bits()),
        3 if double.fract() == 0.0 && double.abs() < 1e30 => Value::Int(double as i128),
        4 => Value::Float((double as f32).to_bits()),
        5 => Value::Double((-double).to_bits()),
        _ => match expansion(double) {
            // Exactly the double where 76 digits are enough, else a hair below.
            Some((negative, mut digits, mut scale)) => {
                while digits.len() > 76 {
                    digits.pop();
                    scale -= 1;
                }
                let exact = Value::Decimal { negative, digits: digits.clone(), scale };
                if random.bool() { exact } else { near_decimal(random, negative, &digits, scale) }
            }
            None => Value::Double(double.to_bits() ^ 1),
        },
    }
}

fn near_decimal(random: &mut Rng, negative: bool, digits: &[u8], scale: i32) -> Value {
    let mut digits = digits.to_vec();
    match random.u8(..6) {
        // The same number with more zeros.
        0 if digits.len() < 76 => {
            let zeros = random.usize(1..=(76 - digits.len()).min(5));
            digits.extend(std::iter::repeat_n(0, zeros));
            return Value::Decimal { negative, digits, scale: scale.saturating_add(zeros as i32) };
        }
        // A hair more: a digit far behind.
        1 if digits.len() < 76 => {
            let zeros = random.usize(..76 - digits.len());
            digits.extend(std::iter::repeat_n(0, zeros));
            digits.push(random.u8(1..10));
            return Value::Decimal { negative, digits, scale: scale.saturating_add(zeros as i32 + 1) };
        }
        2 => {
            let text: std::string::String = digits.iter().map(|digit| (b'0' + digit) as char).collect();
            let sign = if negative { "-" } else { "" };
            let double: f64 = format!("{sign}{text}e{}", -i64::from(scale)).parse().unwrap();
            return Value::Double(double.to_bits());
        }
        3 => return Value::Decimal { negative: !negative, digits, scale },
        _ => {
            let at = digits.len() - 1;
            digits[at] = (digits[at] + 1) % 10;
        }
    }
    Value::Decimal { negative, digits, scale }
}

fn near_bytes(random: &mut Rng, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    match random.u8(..6) {
        0 => bytes.push(0),
        1 => bytes.push(pick(random, &[0xff, b'a', b'b', 1])),
        2 => {
            bytes.pop();
        }
        3 if !bytes.is_empty() => {
            let at = random.usize(..bytes.len());
            bytes[at] = bytes[at].wrapping_add(1);
        }
        4 if !bytes.is_empty() => *bytes.last_mut().unwrap() = pick(random, &[0, 0xff]),
        _ => {
            let byte = pick(random, &[0, b'x', 0xff]);
            bytes.extend(std::iter::repeat_n(byte, random.usize(..9)));
        }
    }
    bytes
}

/// A value from all over the type, edges more often than the rest.
fn fresh(random: &mut Rng, field_type: Type) -> Value {
    let value = match field_type {
        Boolean => Value::Bool(random.bool()),
        String => Value::Str(fresh_bytes(random)),
        Varbinary => Value::Bin(fresh_bytes(random)),
        Uuid => Value::Uuid(fresh_uuid(random)),
        Datetime => fresh_datetime(random),
        Decimal => fresh_decimal(random),
        Float32 => Value::Float((fresh_double(random) as f32).to_bits()),
        Float64 => Value::Double(fresh_double(random).to_bits()),
        Double | Number => match random.u8(..4) {
            0 => Value::Int(fresh_int(random)),
            1 => Value::Float((fresh_double(random) as f32).to_bits()),
            2 if field_type == Number => fresh_decimal(random),
            _ => Value::Double(fresh_double(random).to_bits()),
        },
        Scalar => {
            let inner =
                [Boolean, String, Varbinary, Uuid, Datetime, Decimal, Float32, Number, Integer, Number];
            let inner = pick(random, &inner);
            return fresh(random, inner);
        }
        _ => {
            let (least, greatest) = field_type.integers().expect("the rest are integers");
            let width = (greatest - least + 1) as u128;
            let int = fresh_int(random);
            if (least..=greatest).contains(&int) {
                return Value::Int(int);
            }
            return Value::Int(least + ((int - least) as u128 % width) as i128);
        }
    };
    debug_assert!(is_legal(&value));
    value
}

fn fresh_int(random: &mut Rng) -> i128 {
    match random.u8(..5) {
        0 => random.i128(-3..20),
        1 => random.i128(-70_000..70_000),
        2 => {
            let edge = 1i128 << random.u32(..65);
            let int = edge + random.i128(-2..3);
            if random.bool() { int.min(u64::MAX.into()) } else { (-int).max(i64::MIN.into()) }
        }
        3 => random.u64(..).into(),
        _ => random.i64(..).into(),
    }
}

fn fresh_double(random: &mut Rng) -> f64 {
    let edges = [
        0.0,
        -0.0,
        f64::NAN,
        -f64::NAN,
        f64::from_bits(0x7ff0_0000_0000_0001),
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        f64::from_bits(1),
        -f64::from_bits(1),
        f32::MAX.into(),
        9_007_199_254_740_992.0,
        9_007_199_254_740_991.0,
        9_007_199_254_740_994.0,
        9_223_372_036_854_775_808.0,
        -9_223_372_036_854_775_808.0,
        18_446_744_073_709_551_616.0,
        0.1,
        1e22,
        1e23,
        -1e308,
    ];
    match random.u8(..5) {
        0 => pick(random, &edges),
        1 => f64::from(random.i16(..)),
        2 => f64::from(random.i32(-1000..1000)) / 16.0,
        3 => f64::from_bits(random.u64(..)),
        _ => random.f64() * 10f64.powi(random.i32(-20..20)),
    }
}

fn fresh_decimal(random: &mut Rng) -> Value {
    match random.u8(..5) {
        0 => decimal_of(fresh_int(random)),
        1 => {
            let double = match random.bool() {
                true => fresh_double(random),
                false => f64::from(random.i16(..)) / 1024.0,
            };
            match near_double(random, double) {
                decimal @ Value::Decimal { .. } => decimal,
                _ => decimal_of(random.i128(-9..10)),
            }
        }
        2 => {
            let mut digits: Vec<u8> = (0..random.usize(1..=76)).map(|_| random.u8(..10)).collect();
            if random.bool() {
                digits.fill(9);
            }
            let scale = random.i32(-400..400);
            Value::Decimal { negative: random.bool(), digits, scale }
        }
        3 => {
            // Where Tarantool's own range ends.
            let edge = pick(random, &[1, -1, 300, -300, 308, 324, 38, 999_999, -999_999]);
            Value::Decimal { negative: random.bool(), digits: vec![random.u8(..10)], scale: edge }
        }
        _ => {
            let digits = (0..random.usize(1..6)).map(|_| random.u8(..10)).collect();
            Value::Decimal { negative: random.bool(), digits, scale: random.i32(0..4) }
        }
    }
}

fn fresh_bytes(random: &mut Rng) -> Vec<u8> {
    let length = match random.u8(..8) {
        0 => 0,
        1 => random.usize(..80),
        _ => random.usize(..10),
    };
    let letters: &[u8] = if random.bool() { b"ab" } else { &[0, 1, b'a', b'b', 0xc3, 0xfe, 0xff] };
    (0..length).map(|_| pick(random, letters)).collect()
}

fn fresh_uuid(random: &mut Rng) -> [u8; 16] {
    match random.u8(..4) {
        0 => [0; 16],
        1 => [0xff; 16],
        _ => random.u128(..).to_be_bytes(),
    }
}

fn fresh_datetime(random: &mut Rng) -> Value {
    let seconds = match random.u8(..6) {
        0 => random.i64(-3..3),
        1 => pick(random, &[SECONDS_MIN, SECONDS_MAX, -(1 << 33), 1 << 33, 1 << 32, -(1 << 32)]),
        2 => pick(random, &[-(1i64 << 33), 1 << 33, 1 << 34]) + random.i64(-2..3),
        3 => random.i64(SECONDS_MIN..=SECONDS_MAX),
        _ => random.i64(1_700_000_000..1_800_000_000),
    };
    let nanoseconds = match random.u8(..4) {
        0 => random.u32(..1_000_000_000),
        1 => random.u32(..40),
        2 => random.u32(..1000) * 1_000_000,
        _ => 0,
    };
    let zoned = random.u8(..4) == 0;
    let (offset, zone) = if zoned { (random.i16(-720..=840), random.i16(0..=1024)) } else { (0, 0) };
    Value::Datetime { seconds: seconds.clamp(SECONDS_MIN, SECONDS_MAX), nanoseconds, offset, zone }
}
