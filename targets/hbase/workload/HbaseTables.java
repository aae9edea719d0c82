import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.hbase.MetaTableAccessor;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.TableNotFoundException;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptor;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.TableDescriptor;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.apache.hadoop.hbase.client.TableState;
import warren.workload.Client;
import warren.workload.Operation;
import warren.workload.Result;

/**
 * Operations on whole tables. A table is a key of the history, `table:<name>`, and its content is what an administrator sees of it:
 * `enabled Personal,Office in 2`. What an operation does to rows (truncate, delete) is in the history as deletes of these rows with
 * the same outcome.
 */
final class HbaseTables {
    private static final int VERSIONS = 3;
    /** Contents that tables were ever meant to have: `<table> <content>`. */
    private final Set<String> meant = ConcurrentHashMap.newKeySet();
    private final HbaseRows rows;
    /** The last operation of a table, while it is not known whether it has happened. */
    final Map<String, Doubt> doubts = new LinkedHashMap<>();

    /** An operation that takes all of these rows with it, or has not happened. */
    static final class Doubt {
        /** The table's content when it has happened; null = no table. */
        final String after;
        final List<String> rows;
        /** Those of them that are there for sure unless it has happened: a put of theirs was answered. */
        final List<String> sure;
        /** The table goes and is made anew, so that for a while there is none. */
        final boolean anew;

        Doubt(String after, List<String> rows, List<String> sure, boolean anew) {
            this.after = after;
            this.rows = rows;
            this.sure = sure;
            this.anew = anew;
        }
    }

    HbaseTables(HbaseRows rows) {
        this.rows = rows;
    }

    static String key(String table) {
        return "table:" + table;
    }

    static String state(boolean enabled, int regions, String... families) {
        return (enabled ? "enabled " : "disabled ") + String.join(",", new TreeSet<>(Arrays.asList(families))) + " in " + regions;
    }

    static ColumnFamilyDescriptor family(String name) {
        return ColumnFamilyDescriptorBuilder.newBuilder(HbaseRows.bytes(name)).setMaxVersions(VERSIONS).build();
    }

    /** What an administrator sees of a table; null = there is none. */
    static String seen(Connection connection, Admin admin, String table) throws Exception {
        TableName name = TableName.valueOf(table);
        TableDescriptor descriptor;
        try {
            descriptor = admin.getDescriptor(name);
        } catch (TableNotFoundException e) {
            return null;
        }
        TableState state = MetaTableAccessor.getTableState(connection, name);
        List<String> families = new ArrayList<>();
        for (ColumnFamilyDescriptor family : descriptor.getColumnFamilies()) {
            families.add(family.getNameAsString());
        }
        String word = state == null ? "stateless" : state.getState().name().toLowerCase(java.util.Locale.ROOT);
        return word + " " + String.join(",", new TreeSet<>(families)) + " in "
                + MetaTableAccessor.getTableRegionsAndLocations(connection, name).size();
    }

    Result create(Client client, String table, byte[][] splits, String... families) {
        TableDescriptorBuilder builder = TableDescriptorBuilder.newBuilder(TableName.valueOf(table));
        for (String family : families) {
            builder.setColumnFamily(family(family));
        }
        String after = state(true, splits.length + 1, families);
        return change(client, table, Operation.of("create", key(table)).value(after), new Doubt(after, Collections.emptyList(), Collections.emptyList(), false),
                admin -> admin.createTable(builder.build(), splits));
    }

    /** @param lost rows that have no cell in another family, each with an answered put */
    Result alter(Client client, String table, String after, List<String> lost, Act act) {
        return change(client, table, Operation.of("write", key(table)).value(after), new Doubt(after, lost, lost, false), act);
    }

    /**
     * @param rows all that may be there
     * @param sure those of them that are
     * @param act takes the table with all its rows away and makes it anew, in several steps of the master's
     */
    Result truncate(Client client, String table, String after, List<String> rows, List<String> sure, Act act) {
        return change(client, table, Operation.of("write", key(table)).value(after), new Doubt(after, rows, sure, true), act);
    }

    /** As {@link #truncate}. */
    Result delete(Client client, String table, List<String> rows, List<String> sure) {
        return change(client, table, Operation.of("delete", key(table)), new Doubt(null, rows, sure, false),
                admin -> admin.deleteTable(TableName.valueOf(table)));
    }

    /** What is asked of the master. */
    interface Act {
        void run(Admin admin) throws Exception;
    }

    /** @param made what stays in doubt if it is not known whether it has happened */
    private Result change(Client client, String table, Operation op, Doubt made, Act act) {
        if (made.after != null) {
            meant.add(table + " " + made.after);
        }
        Result result = nested(client, table, made.rows, () -> client.run(op, () -> HbaseSession.of(client).admin(admin -> {
            act.run(admin);
            return Result.ok();
        })));
        synchronized (doubts) {
            doubts.remove(table);
            if (!result.isOk() && !made.rows.isEmpty()) {
                doubts.put(table, made);
            }
        }
        return result;
    }

    private interface Inner {
        Result run();
    }

    /** In the history the rows go while the table's own operation is made. */
    private Result nested(Client client, String table, List<String> rows, Inner inner) {
        if (rows.isEmpty()) {
            return inner.run();
        }
        Result[] all = new Result[1];
        String key = HbaseRows.key(table, rows.get(0));
        this.rows.goes(key);
        client.run(Operation.of("delete", key), () -> {
            all[0] = nested(client, table, rows.subList(1, rows.size()), inner);
            return all[0].isOk() ? Result.ok() : Result.unknown(all[0].error());
        });
        return all[0];
    }

    /** Tables that someone was about to make. */
    Set<String> names() {
        Set<String> names = new TreeSet<>();
        for (String content : meant) {
            names.add(content.substring(0, content.indexOf(' ')));
        }
        return names;
    }

    /** The last operation is seen to have happened. */
    void settled(String table) {
        synchronized (doubts) {
            doubts.remove(table);
        }
    }

    /** A read of the table's own key. What an operation under way shows between its two ends is no content. */
    Result look(Client client, String table) {
        return client.run(Operation.of("read", key(table)), () -> HbaseSession.of(client).admin(admin -> {
            String seen = seen(HbaseSession.of(client).connection, admin, table);
            boolean settled = seen == null ? !goes(table) : meant.contains(table + " " + seen);
            return settled ? Result.ok().value(seen) : Result.unknown("between two states: " + (seen == null ? "no table" : seen));
        }));
    }

    /** That there is no table may be a moment of a truncate that is under way. */
    private boolean goes(String table) {
        synchronized (doubts) {
            Doubt doubt = doubts.get(table);
            return doubt != null && doubt.anew;
        }
    }
}
