package sample;

import java.io.File;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;

/** A target that uses files in every hooked way. Each `// point:` line says what the method it stands in must give, in order. */
public class Disk {
    static void stream() throws Exception {
        // point: create before s.bin
        // point: write before s.bin
        // point: write before s.bin
        // point: write before s.bin
        // point: force before
        // point: force after
        try (FileOutputStream out = new FileOutputStream("s.bin")) {
            out.write(1);
            out.write(new byte[3]);
            out.write(new byte[9], 1, 5);
            out.write(new byte[9], 1, 0);
            out.getFD().sync();
        }
    }

    static void random() throws Exception {
        // point: create before r.bin
        // point: write before r.bin
        // point: write before r.bin
        // point: write before r.bin
        // point: truncate before *
        try (RandomAccessFile f = new RandomAccessFile("r.bin", "rw")) {
            f.write(1);
            f.write(new byte[3]);
            f.write(new byte[9], 1, 5);
            f.setLength(2);
        }
    }

    static void reading() throws Exception {
        try (RandomAccessFile f = new RandomAccessFile("r.bin", "r")) {
            f.read();
        }
        Files.readAllBytes(Paths.get("s.bin"));
    }

    static void channel() throws Exception {
        // point: create before c.bin
        // point: write before c.bin
        // point: write before c.bin
        // point: write before c.bin
        // point: force before c.bin
        // point: force after c.bin
        // point: truncate before c.bin
        try (FileChannel c = FileChannel.open(Paths.get("c.bin"), StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
            c.write(ByteBuffer.allocate(4));
            c.write(ByteBuffer.allocate(4), 10);
            c.write(new ByteBuffer[] {ByteBuffer.allocate(1), ByteBuffer.allocate(2)});
            c.write(ByteBuffer.allocate(0));
            c.force(false);
            c.truncate(1);
        }
    }

    static void names() throws Exception {
        // point: create before d
        // point: create before d/new
        // point: rename before d/new -> d/old
        // point: rename after d/new -> d/old
        // point: rename before d/none -> d/old
        // point: delete before d/old
        // point: delete before d
        new File("d").mkdir();
        File f = new File("d/new");
        f.createNewFile();
        f.renameTo(new File("d/old"));
        new File("d/none").renameTo(new File("d/old"));
        new File("d/old").delete();
        new File("d").delete();
    }

    static void paths() throws Exception {
        // point: create before p
        // point: create before p/new
        // point: write before p/new
        // point: rename before p/new -> p/old
        // point: rename after p/new -> p/old
        // point: delete before p/old
        // point: delete before p
        Files.createDirectory(Paths.get("p"));
        Files.write(Paths.get("p/new"), new byte[3]);
        Files.move(Paths.get("p/new"), Paths.get("p/old"), StandardCopyOption.ATOMIC_MOVE);
        Files.delete(Paths.get("p/old"));
        Files.delete(Paths.get("p"));
    }

    static void logs() throws Exception {
        System.out.println("a line on stdout");
        System.err.println("a line on stderr");
        try (PrintStream log = new PrintStream(new FileOutputStream("own.log", true))) {
            log.println("a line in a log of mine");
        }
        try (FileOutputStream null0 = new FileOutputStream("/dev/null")) {
            null0.write(1);
        }
    }

    static void absolute() throws Exception {
        // point: create before inside.bin
        try (FileOutputStream out = new FileOutputStream(new File("inside.bin").getAbsolutePath())) {
            // the detail is relative to the node's folder
        }
    }

    /** Two stacks that differ in a frame so deep that a raw backtrace holds it in its second part. */
    private static void deep(int left, String name) throws Exception {
        // point: create before d1.bin
        // point: create before d2.bin
        if (left > 0) {
            deep(left - 1, name);
            return;
        }
        new FileOutputStream(name).close();
    }

    static void underOne() throws Exception {
        deep(40, "d1.bin");
    }

    static void underOther() throws Exception {
        deep(40, "d2.bin");
    }

    public static void main(String[] args) throws Exception {
        stream();
        random();
        reading();
        channel();
        names();
        paths();
        logs();
        absolute();
        underOne();
        underOther();
    }
}
