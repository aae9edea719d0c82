import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.hbase.MetaTableAccessor;
import org.apache.hadoop.hbase.RegionLocations;
import org.apache.hadoop.hbase.ServerName;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.HRegionLocation;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.RegionInfo;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.TableState;

/**
 * One look at where regions are: what hbase:meta says, what each server has open, which folders the file system holds. They agree when nothing is
 * under way: each region of an enabled table is open on exactly one living server, the one that meta names; each table with a state has a
 * descriptor and a folder and the other way round; each region has a folder and each folder a region; a table's regions have no hole.
 */
final class HbaseLayout {
    private final Connection connection;
    private final Admin admin;

    /** Regions of meta by encoded name; with the server that meta names. */
    private final Map<String, RegionInfo> regions = new TreeMap<>();
    private final Map<String, ServerName> placed = new TreeMap<>();
    private final Map<TableName, TableState> states = new TreeMap<>();
    /** What disagrees, each as {what, detail}. */
    private final List<String[]> wrong = new ArrayList<>();

    HbaseLayout(Connection connection, Admin admin) {
        this.connection = connection;
        this.admin = admin;
    }

    /**
     * Looks at all of it.
     *
     * @return what disagrees, each as {what, detail}
     * @throws IOException where somebody could not be asked
     */
    List<String[]> look() throws IOException {
        for (Result row : MetaTableAccessor.fullScanRegions(connection)) {
            RegionLocations locations = MetaTableAccessor.getRegionLocations(row);
            if (locations == null) {
                wrong("hbase:meta has a region without its description", row.toString());
                continue;
            }
            HRegionLocation first = locations.getRegionLocation();
            if (first == null) {
                continue;
            }
            RegionInfo region = first.getRegion();
            // A region that was split or merged away waits for its files to be cleaned.
            if (!region.isSplitParent()) {
                regions.put(region.getEncodedName(), region);
                placed.put(region.getEncodedName(), first.getServerName());
            }
        }
        states.putAll(MetaTableAccessor.getTableStates(connection));
        states.remove(TableName.META_TABLE_NAME);
        tables();
        chains();
        servers();
        files();
        return wrong;
    }

    private void wrong(String what, String detail) {
        wrong.add(new String[] {what, detail});
    }

    private boolean enabled(TableName table) {
        TableState state = states.get(table);
        return state != null && state.isEnabled();
    }

    /** Table states, descriptors and regions name the same tables, and no state is one of a passage. */
    private void tables() throws IOException {
        Set<TableName> described = new TreeSet<>();
        admin.listTableDescriptors().forEach(d -> described.add(d.getTableName()));
        described.removeIf(TableName::isSystemTable);
        Set<TableName> stated = new TreeSet<>(states.keySet());
        stated.removeIf(TableName::isSystemTable);
        if (!described.equals(stated)) {
            wrong("tables with a descriptor and tables with a state differ", "described " + described + ", with a state " + stated);
        }
        Set<TableName> parted = new TreeSet<>();
        regions.values().forEach(r -> parted.add(r.getTable()));
        parted.removeIf(TableName::isSystemTable);
        if (!described.equals(parted)) {
            wrong("tables with a descriptor and tables with regions differ", "described " + described + ", with regions " + parted);
        }
        for (Map.Entry<TableName, TableState> s : states.entrySet()) {
            if (s.getValue().isEnabling() || s.getValue().isDisabling()) {
                wrong("a table stays between two states", s.getKey() + " is " + s.getValue().getState());
            }
        }
    }

    /** The regions of a table follow each other from the first key to the last. */
    private void chains() {
        Map<TableName, List<RegionInfo>> by = new TreeMap<>();
        regions.values().forEach(r -> by.computeIfAbsent(r.getTable(), t -> new ArrayList<>()).add(r));
        for (Map.Entry<TableName, List<RegionInfo>> table : by.entrySet()) {
            table.getValue().sort(RegionInfo.COMPARATOR);
            byte[] at = new byte[0];
            boolean whole = true;
            for (RegionInfo region : table.getValue()) {
                whole &= java.util.Arrays.equals(at, region.getStartKey());
                at = region.getEndKey();
            }
            if (!whole || at.length != 0) {
                wrong("a table's regions have a hole or overlap", table.getKey() + ": " + table.getValue());
            }
        }
    }

    /** What each living server has open is what meta says of it. */
    private void servers() throws IOException {
        Map<String, List<ServerName>> open = new TreeMap<>();
        int meta = 0;
        List<ServerName> living = new ArrayList<>(admin.getClusterMetrics().getLiveServerMetrics().keySet());
        for (ServerName server : living) {
            for (RegionInfo region : admin.getRegions(server)) {
                if (region.isMetaRegion()) {
                    meta++;
                } else {
                    open.computeIfAbsent(region.getEncodedName(), e -> new ArrayList<>()).add(server);
                }
            }
        }
        if (meta != 1) {
            wrong("hbase:meta is not open on exactly one server", meta + " servers have it");
        }
        for (Map.Entry<String, RegionInfo> r : regions.entrySet()) {
            List<ServerName> at = open.getOrDefault(r.getKey(), new ArrayList<>());
            boolean wanted = enabled(r.getValue().getTable());
            String name = r.getValue().getRegionNameAsString();
            if (wanted && at.size() != 1) {
                wrong("a region is not open on exactly one server", name + " is open on " + at);
            } else if (wanted && !at.get(0).equals(placed.get(r.getKey()))) {
                wrong("a region is open on a server that hbase:meta does not name", name + " on " + at + ", meta " + placed.get(r.getKey()));
            } else if (!wanted && !at.isEmpty()) {
                wrong("a region of a table that is not enabled is open", name + " on " + at);
            }
        }
        for (Map.Entry<String, List<ServerName>> o : open.entrySet()) {
            if (!regions.containsKey(o.getKey())) {
                wrong("a region is open that hbase:meta does not have", o.getKey() + " on " + o.getValue());
            }
        }
    }

    /** Below data/default: a folder a table, a folder a region. What waits in the archive or in .tmp is nobody's. */
    private void files() throws IOException {
        FileSystem fs = FileSystem.newInstance(connection.getConfiguration());
        try {
            Path data = new Path(connection.getConfiguration().get("hbase.rootdir"), "data/default");
            Set<String> folders = new TreeSet<>();
            for (FileStatus table : list(fs, data)) {
                String name = table.getPath().getName();
                if (!states.containsKey(TableName.valueOf(name))) {
                    wrong("there is a folder of a table that hbase:meta does not have", name + ": " + below(fs, table.getPath()));
                    continue;
                }
                for (FileStatus region : list(fs, table.getPath())) {
                    String encoded = region.getPath().getName();
                    if (!encoded.startsWith(".")) {
                        folders.add(encoded);
                        if (!regions.containsKey(encoded)) {
                            String files = below(fs, region.getPath()).toString();
                            wrong("there is a folder of a region that hbase:meta does not have", name + "/" + encoded + ": " + files);
                        }
                    }
                }
            }
            for (RegionInfo region : regions.values()) {
                if (!region.getTable().isSystemTable() && !folders.contains(region.getEncodedName())) {
                    wrong("a region has no folder", region.getRegionNameAsString());
                }
            }
        } finally {
            fs.close();
        }
    }

    /** The files below a folder: rows tell of a region server that wrote there, a descriptor alone of a master. */
    private static List<String> below(FileSystem fs, Path folder) throws IOException {
        List<String> files = new ArrayList<>();
        RemoteIterator<LocatedFileStatus> all = fs.listFiles(folder, true);
        while (all.hasNext()) {
            LocatedFileStatus file = all.next();
            files.add(file.getPath().toUri().getPath().substring(folder.toUri().getPath().length() + 1) + " (" + file.getLen() + " bytes)");
        }
        return files;
    }

    private static FileStatus[] list(FileSystem fs, Path folder) throws IOException {
        try {
            return fs.listStatus(folder);
        } catch (FileNotFoundException e) {
            return new FileStatus[0];
        }
    }
}
