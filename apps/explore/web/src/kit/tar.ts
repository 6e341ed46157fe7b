// Packs files into a tar archive (POSIX ustar), so that a folder can be downloaded as one file.

/** Throws for a path of more than 100 bytes. */
export function tarOf(files: Record<string, Uint8Array>): Uint8Array {
  const block = 512;
  const padded = (size: number) => Math.ceil(size / block) * block;
  const all = Object.entries(files);
  const size = all.reduce((sum, [, bytes]) => sum + block + padded(bytes.length), 2 * block);
  const archive = new Uint8Array(size);
  const encoder = new TextEncoder();
  let at = 0;
  for (const [name, bytes] of all) {
    const header = archive.subarray(at, at + block);
    const put = (text: string, offset: number) => header.set(encoder.encode(text), offset);
    const octal = (value: number, digits: number) => value.toString(8).padStart(digits, "0") + "\0";
    const path = encoder.encode(`permuted-model/${name}`);
    if (path.length > 100) throw new Error(`the name ${name} is too long for an archive`);
    header.set(path, 0);
    put(octal(0o644, 7), 100); // mode
    put(octal(0, 7), 108); // user
    put(octal(0, 7), 116); // group
    put(octal(bytes.length, 11), 124);
    put(octal(0, 11), 136); // time
    put("        ", 148); // the checksum counts as spaces
    put("0", 156); // a regular file
    put("ustar\0" + "00", 257);
    put(octal(header.reduce((sum, byte) => sum + byte, 0), 6) + " ", 148);
    archive.set(bytes, at + block);
    at += block + padded(bytes.length);
  }
  return archive;
}
