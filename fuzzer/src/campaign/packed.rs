//! zstd over postcard: the bytes of checkpoints, journal records, kept runs and parked classes. Called by their readers and writers, which put
//! magic, version and sums before it. Knows no format of its own and touches no file.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::Write;

/// zstd's level for everything in a campaign's folder: traces compress ten times and more even at the fastest ones.
pub const LEVEL: i32 = 3;

/// # Errors
/// What postcard or zstd say; the caller adds the file.
pub fn pack<T: Serialize>(value: &T) -> Result<Vec<u8>, String> {
    let plain = postcard::to_allocvec(value).map_err(|e| e.to_string())?;
    zipped(&plain).map_err(|e| e.to_string())
}

/// With zstd's own sum: a flipped bit may well give something that can be read.
///
/// # Errors
/// No memory.
pub fn zipped(plain: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = zstd::Encoder::new(Vec::new(), LEVEL)?;
    encoder.include_checksum(true)?;
    encoder.write_all(plain)?;
    encoder.finish()
}

/// # Errors
/// What zstd or postcard say of damaged bytes; the caller adds the file.
pub fn unpack<T: DeserializeOwned>(packed: &[u8]) -> Result<T, String> {
    let plain = zstd::decode_all(packed).map_err(|e| e.to_string())?;
    match postcard::take_from_bytes(&plain) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(format!("{} bytes are left over", rest.len())),
        Err(e) => Err(e.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flipped_bit_never_gives_another_value() {
        let value: Vec<u32> = (0..300).map(|i| i * i % 71).collect();
        let packed = pack(&value).unwrap();
        assert_eq!(unpack::<Vec<u32>>(&packed).unwrap(), value);
        let mut refused = 0;
        for bit in 0..packed.len() * 8 {
            let mut damaged = packed.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            match unpack::<Vec<u32>>(&damaged) {
                Err(_) => refused += 1,
                // Bits of the frame's head that zstd does not need.
                Ok(read) => assert_eq!(read, value, "bit {bit}"),
            }
        }
        assert!(
            refused > packed.len() * 7,
            "{refused} of {}",
            packed.len() * 8
        );
    }

    #[test]
    fn what_is_left_over_is_damage() {
        let packed = pack(&(7u8, 9u8)).unwrap();
        assert_eq!(unpack::<(u8, u8)>(&packed), Ok((7, 9)));
        assert_eq!(unpack::<u8>(&packed), Err("1 bytes are left over".into()));
    }

    #[test]
    fn what_was_packed_without_a_sum_is_read() {
        let older = zstd::encode_all(&postcard::to_allocvec(&[7u8, 9]).unwrap()[..], LEVEL);
        assert_eq!(unpack::<[u8; 2]>(&older.unwrap()).unwrap(), [7, 9]);
    }
}
