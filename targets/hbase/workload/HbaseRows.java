import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.HashSet;
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
 * then one put, however late the first one arrives, and a delete hides what came before it and nothing else. Of two puts the one with the larger timestamp
 * is shown, in whatever order they come, so the timestamp is told as the order number of the change, for a row that nobody deletes ({@link #number}).
 */
final class HbaseRows {
    static final byte[] QUALIFIER = bytes("v");
    private static final int FILLER = 400;
    private final Map<String, Set<String>> rows = new TreeMap<>();
    /** Keys of rows that a delete may have taken away, by itself or with their table or family. */
    private final Set<String> deleted = new HashSet<>();

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

    /** Someone is about to delete this row, or what it is in. */
    synchronized void goes(String key) {
        deleted.add(key);
    }

    /**
     * The order number of the change that wrote what was read; 0 = none is told. A compaction forgets what a delete has hidden, and the delete: a put that comes
     * late then is shown, though one with a larger timestamp was answered. HBase documents that, so of a row that was ever to be deleted nothing is told.
     */
    synchronized long number(String key, Result read) {
        boolean one = read != null && read.rawCells() != null && read.rawCells().length == 1;
        return one && !deleted.contains(key) ? read.rawCells()[0].getTimestamp() : 0;
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
