import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import warren.workload.Client;
import warren.workload.Condition;
import warren.workload.Operation;
import warren.workload.Result;

/** The single operations on HDFS, each made by {@link Client#run} so that it stands in the history. Contents are named by {@link HdfsFiles}. */
final class HdfsOperations {
    /** Renames whose outcome is not known: {from, to}. */
    final List<String[]> doubtful = new ArrayList<>();
    private final HdfsFiles files;

    HdfsOperations(HdfsFiles files) {
        this.files = files;
    }

    static HdfsSession of(Client client) {
        return (HdfsSession) client.session();
    }

    Result mkdirs(Client client, String path) throws Exception {
        // A folder has no content to judge, so it is in no history.
        boolean made = of(client).call(() -> of(client).fs.mkdirs(new Path(path)));
        return made ? Result.ok() : Result.unknown("not made");
    }

    private interface Change {
        Result make();
    }

    /** Makes a change after which there is a file at one of these paths, or none. */
    private Result change(Change change, String... paths) {
        for (String path : paths) {
            files.asked(path);
        }
        Result made = change.make();
        if (made.isOk()) {
            for (String path : paths) {
                files.answered(path);
            }
        }
        return made;
    }

    /** Makes an empty file and leaves it open. */
    Result create(Client client, String path) {
        String value = path.startsWith(HdfsFiles.PLAIN) ? "" : files.id(path) + ":0";
        return change(() -> client.run(Operation.of("create", path).value(value), () -> of(client).call(() -> {
            HdfsSession session = of(client);
            session.out = session.fs.create(new Path(path), false);
            return Result.ok();
        })), path);
    }

    /** Writes pieces into the open file and flushes or closes it. */
    Result write(Client client, String path, int from, int to, boolean close) {
        String id = files.id(path);
        String name = files.milestone(id, to);
        return client.run(Operation.of("write", path).value(name), () -> of(client).call(() -> {
            for (int n = from; n < to; n++) {
                of(client).out.write(HdfsFiles.piece(id, n));
            }
            Result done = flushed(of(client), close);
            files.acknowledged(name);
            return done;
        }));
    }

    /**
     * On any failure the file is no longer ours to write: what became of it is for the lease's recovery. A flush alone is answered by DataNodes that
     * have not written yet (BlockReceiver.receivePacket; the last of the pipeline has), so it may be lost when all of them are killed at once. Only
     * what a sync behind it has put on each disk is told as written.
     */
    private static Result flushed(HdfsSession session, boolean close) throws IOException {
        FSDataOutputStream out = session.out;
        session.out = null;
        if (close) {
            out.close();
        } else {
            out.hflush();
            out.hsync();
            session.out = out;
        }
        return Result.ok();
    }

    Result put(Client client, String path, String text) {
        Result made = create(client, path);
        return !made.isOk() ? made : client.run(Operation.of("write", path).value(text), () -> of(client).call(() -> {
            of(client).out.write(text.getBytes(StandardCharsets.ISO_8859_1));
            return flushed(of(client), true);
        }));
    }

    Result truncate(Client client, String path, String kept) {
        return client.run(Operation.of("write", path).value(kept), () -> of(client).call(() -> {
            DistributedFileSystem fs = of(client).fs;
            // False: the last block is still being cut.
            if (!fs.truncate(new Path(path), kept.length())) {
                Condition.await(3, () -> fs.isFileClosed(new Path(path)));
            }
            return Result.ok();
        }));
    }

    Result append(Client client, String path, byte[] more, String all) {
        return client.run(Operation.of("write", path).value(all), () -> of(client).call(() -> {
            try (FSDataOutputStream out = of(client).fs.append(new Path(path))) {
                out.write(more);
            }
            if (!path.startsWith(HdfsFiles.PLAIN)) {
                files.acknowledged(all);
            }
            return Result.ok();
        }));
    }

    /** In the history the old name goes and the new one comes, while one call is made. */
    Result rename(Client client, String from, String to, String value) {
        Result[] both = new Result[1];
        change(() -> client.run(Operation.of("delete", from), () -> {
            both[0] = client.run(Operation.of("create", to).value(value), () -> of(client).call(() -> {
                boolean done = of(client).fs.rename(new Path(from), new Path(to));
                return done ? Result.ok() : Result.unknown("not renamed");
            }));
            return both[0].isOk() ? Result.ok() : Result.unknown(both[0].error());
        }), from, to);
        if (!both[0].isOk()) {
            synchronized (doubtful) {
                doubtful.add(new String[] {from, to});
            }
        }
        return both[0];
    }

    Result delete(Client client, String path) {
        return change(() -> client.run(Operation.of("delete", path), () -> of(client).call(() -> {
            boolean done = of(client).fs.delete(new Path(path), false);
            return done ? Result.ok() : Result.unknown("not there");
        })), path);
    }

    Result read(Client client, String path) {
        return client.run(Operation.of("read", path), () -> of(client).call(() -> {
            byte[] content = of(client).readFromActive(path);
            // Asked behind the read: what was answered by then is in the journal, whatever the read saw of it.
            if (files.isPending(path)) {
                return Result.unknown("a change of its name was not answered yet");
            }
            if (content == null) {
                return Result.ok();
            }
            String name = files.name(path, content);
            // HDFS promises what was flushed; of the rest one DataNode may show more than the next one who is asked.
            boolean ahead = files.isAhead(path, name);
            return ahead ? Result.unknown("saw what its writer was not told yet") : Result.ok().value(name);
        }));
    }

    /** After the rename there is one file below the folder. */
    Result list(Client client, String folder) throws Exception {
        List<String> found = of(client).call(() -> {
            List<String> names = new ArrayList<>();
            RemoteIterator<LocatedFileStatus> all = of(client).fs.listFiles(new Path(folder), true);
            while (all.hasNext()) {
                FileStatus file = all.next();
                names.add(file.getPath().toUri().getPath());
            }
            return names;
        });
        // A deposed NameNode may still answer with what was before, so a short list is no fault yet.
        return found.size() == 1 ? Result.ok() : Result.unknown("found " + found);
    }
}
