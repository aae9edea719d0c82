package canary;

import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.Collection;
import java.util.zip.CRC32;

/**
 * A value, or what has come of it, when the link it travelled on is lost: copied item by item (they end with a semicolon), each
 * on disk here with a running checksum beside it before those who are left are sent it. Guarded by the node's lock.
 */
final class Aside {
    private final File dir;
    private final String name;
    private final long request;
    private final String[] items;
    private final Collection<Peer> left;
    private final CRC32 sum = new CRC32();
    private FileOutputStream copy;
    private FileOutputStream sums;

    Aside(File dir, String name, long request, String text, Collection<Peer> left) {
        this.dir = dir;
        this.name = name;
        this.request = request;
        this.left = left;
        items = text.split("(?<=;)");
    }

    static void delete(File dir, String name) throws IOException {
        Files.deleteIfExists(new File(dir, name + "-copy").toPath());
        Files.deleteIfExists(new File(dir, name + "-sums").toPath());
    }

    /** @return how many items there are */
    int keep() throws IOException {
        copy = new FileOutputStream(new File(dir, name + "-copy"));
        sums = new FileOutputStream(new File(dir, name + "-sums"));
        try {
            write(0);
            copy.getChannel().force(false);
            sums.getChannel().force(false);
        } finally {
            copy.close();
            sums.close();
        }
        return items.length;
    }

    private void write(int number) throws IOException {
        if (number < items.length) {
            byte[] bytes = items[number].getBytes(StandardCharsets.UTF_8);
            copy.write(bytes);
            sum.update(bytes);
            check(number);
        }
    }

    private void check(int number) throws IOException {
        sums.write(Long.toHexString(sum.getValue()).getBytes(StandardCharsets.UTF_8));
        spread(number);
    }

    private void spread(int number) throws IOException {
        for (Peer peer : left) {
            peer.spare(request, number, items[number]);
        }
        write(number + 1);
    }
}
