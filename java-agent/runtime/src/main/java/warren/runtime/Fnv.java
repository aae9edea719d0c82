package warren.runtime;

/** FNV-1a 64, the one hash Java and Rust share (docs/formats.md section 4). Pure. */
public final class Fnv {
    public static final long OFFSET = 0xcbf29ce484222325L;
    private static final long PRIME = 0x100000001b3L;

    private Fnv() {}

    public static long add(long h, int b) {
        return (h ^ (b & 0xff)) * PRIME;
    }

    public static long add(long h, byte[] bytes) {
        for (byte b : bytes) {
            h = add(h, b);
        }
        return h;
    }

    public static long of(byte[] bytes) {
        return add(OFFSET, bytes);
    }

    /** Hash of the text's UTF-8 bytes. */
    public static long of(String text) {
        return of(text.getBytes(java.nio.charset.StandardCharsets.UTF_8));
    }

    /** Hash of a long's eight little-endian bytes and two more bytes: the key of an occurrence. */
    public static long occurrence(long stack, int kind, int place) {
        long h = OFFSET;
        for (int i = 0; i < 8; i++) {
            h = add(h, (int) (stack >>> (8 * i)));
        }
        h = add(add(h, kind), place);
        return h == 0 ? 1 : h;
    }
}
