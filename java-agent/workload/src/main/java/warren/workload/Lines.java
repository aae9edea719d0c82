package warren.workload;

import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;

/** A file of JSON lines, one write() each, opened to append. Keys are given in pairs; null values are left out. */
final class Lines {
    private final FileOutputStream out;

    Lines(String path) throws IOException {
        out = new FileOutputStream(path, true);
    }

    /** Like {@link #write}, but a null value is written as null. */
    static final Object NULL = new Object();

    void write(Object... pairs) {
        StringBuilder line = new StringBuilder(160).append('{');
        for (int i = 0; i < pairs.length; i += 2) {
            Object value = pairs[i + 1];
            if (value == null) {
                continue;
            }
            if (line.length() > 1) {
                line.append(',');
            }
            line.append('"').append(pairs[i]).append("\":");
            if (value == NULL) {
                line.append("null");
            } else if (value instanceof Number || value instanceof Boolean) {
                line.append(value);
            } else {
                quote(line, value.toString());
            }
        }
        byte[] bytes = line.append("}\n").toString().getBytes(StandardCharsets.UTF_8);
        synchronized (this) {
            try {
                out.write(bytes);
            } catch (IOException e) {
                // A history with a hole would be judged as if it were whole: better no process than that.
                System.out.println("cannot write history: " + e);
                Runtime.getRuntime().halt(3);
            }
        }
    }

    private static void quote(StringBuilder line, String text) {
        line.append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                line.append('\\').append(c);
            } else if (c < 0x20 || Character.isSurrogate(c)) {
                String hex = Integer.toHexString(c);
                line.append("\\u").append("0000", hex.length(), 4).append(hex);
            } else {
                line.append(c);
            }
        }
        line.append('"');
    }
}
