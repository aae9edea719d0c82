import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.Set;
import java.util.TreeMap;
import java.util.Map;
import java.util.TreeSet;
import org.apache.hadoop.hbase.Cell;
import org.apache.hadoop.hbase.CellUtil;
import org.apache.hadoop.hbase.client.Result;

/**
 * Rows as keys of the history. A row has one cell, its value is a name and filler that the name alone decides; a key is
 * `row:<table>/<row>`. Each change of a row has a timestamp of its own, given by its only writer: a put that the client sends twice is
 * then one put, however late the first one arrives, and a delete hides what came before it and nothing else.
 */
final class HbaseRows {
    static final byte[] QUALIFIER = bytes("v");
    private static final int FILLER = 400;
    private final Map<String, Set<String>> rows = new TreeMap<>();

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String key(String table, String row) {
        return "row:" + table + "/" + row;
    }

    /** Someone is about to change this row. */
    synchronized void made(String table, String row) {
        rows.computeIfAbsent(table, t -> new TreeSet<>()).add(row);
    }

    /** Rows of a table that were ever changed. */
    synchronized Set<String> of(String table) {
        return new TreeSet<>(rows.getOrDefault(table, Collections.emptySet()));
    }

    synchronized Set<String> tables() {
        return new TreeSet<>(rows.keySet());
    }

    static byte[] value(String name) {
        StringBuilder text = new StringBuilder(name).append('|');
        int start = Math.floorMod(name.hashCode(), 26);
        for (int i = 0; i < FILLER; i++) {
            text.append((char) ('a' + (start + i) % 26));
        }
        return bytes(text.toString());
    }

    /** The name of a stored value; words that no operation has written where it is damaged. */
    static String name(byte[] value) {
        String text = new String(value, StandardCharsets.UTF_8);
        int bar = text.indexOf('|');
        if (bar < 0 || !java.util.Arrays.equals(value(text.substring(0, bar)), value)) {
            return "damaged value of " + value.length + " bytes";
        }
        return text.substring(0, bar);
    }

    /** What a read of one row shows: null = no row. */
    static String shown(Result result) {
        if (result == null || result.isEmpty()) {
            return null;
        }
        StringBuilder all = new StringBuilder();
        for (Cell cell : result.rawCells()) {
            all.append(all.length() == 0 ? "" : ",").append(name(CellUtil.cloneValue(cell)));
        }
        return all.toString();
    }
}
