import java.util.concurrent.atomic.AtomicLong;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.hbase.Cell;
import org.apache.hadoop.hbase.CellUtil;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import warren.workload.Client;
import warren.workload.Operation;
import warren.workload.Result;

/** Operations on single rows, each made by {@link Client#run} so that it stands in the history. Rows are named by {@link HbaseRows}. */
final class HbaseOperations {
    private final HbaseRows rows;
    /** Timestamps: one more than all before is enough, as a row has one writer at a time. That of a put is its order number. */
    private final AtomicLong stamps = new AtomicLong();

    HbaseOperations(HbaseRows rows) {
        this.rows = rows;
    }

    /** What one operation does with a table. */
    private interface Work<T> {
        T run(Table table) throws Exception;
    }

    private static <T> T in(Client client, String table, Work<T> work) throws Exception {
        HbaseSession session = HbaseSession.of(client);
        return session.call(() -> {
            try (Table open = session.connection.getTable(TableName.valueOf(table))) {
                return work.run(open);
            }
        });
    }

    Result put(Client client, String table, String row, String family, String value) {
        rows.made(table, row);
        long stamp = stamps.incrementAndGet();
        return client.run(Operation.of("write", HbaseRows.key(table, row)).value(value), () -> in(client, table, open -> {
            open.put(new Put(HbaseRows.bytes(row))
                    .addColumn(HbaseRows.bytes(family), HbaseRows.QUALIFIER, stamp, HbaseRows.value(value)));
            return Result.ok().mzxid(stamp);
        }));
    }

    /** Tells no number: see {@link HbaseRows#number}. */
    Result delete(Client client, String table, String row) {
        rows.goes(HbaseRows.key(table, row));
        long stamp = stamps.incrementAndGet();
        return client.run(Operation.of("delete", HbaseRows.key(table, row)), () -> in(client, table, open -> {
            open.delete(new Delete(HbaseRows.bytes(row), stamp));
            return Result.ok();
        }));
    }

    Result get(Client client, String table, String row) {
        return client.run(Operation.of("read", HbaseRows.key(table, row)), () -> in(client, table, open -> {
            return seen(table, row, open.get(new Get(HbaseRows.bytes(row))));
        }));
    }

    /** The same question by a scan of this row alone. */
    Result scan(Client client, String table, String row) {
        return client.run(Operation.of("read", HbaseRows.key(table, row)), () -> in(client, table, open -> {
            byte[] at = HbaseRows.bytes(row);
            try (ResultScanner found = open.getScanner(new Scan().withStartRow(at).withStopRow(at, true))) {
                return seen(table, row, found.next());
            }
        }));
    }

    private Result seen(String table, String row, org.apache.hadoop.hbase.client.Result read) {
        return Result.ok().value(HbaseRows.shown(read)).mzxid(rows.number(HbaseRows.key(table, row), read));
    }

    /** Not in the history: it asks for all rows at once. */
    boolean isEmpty(Client client, String table) throws Exception {
        return in(client, table, open -> {
            try (ResultScanner found = open.getScanner(new Scan())) {
                return found.next() == null;
            }
        });
    }

    /** Names of all versions of a row, newest first. */
    List<String> versions(Client client, String table, String row) throws Exception {
        return in(client, table, open -> {
            List<String> names = new ArrayList<>();
            for (Cell cell : open.get(new Get(HbaseRows.bytes(row)).readAllVersions()).rawCells()) {
                names.add(HbaseRows.name(CellUtil.cloneValue(cell)));
            }
            return names;
        });
    }
}
