"""xz files and tar archives by Python's own modules, for builds of the library without libarchive (wheels).

python/archives.cpp calls this; what it raises becomes a FileError that begins with the file's name.
"""

_PIECE = 1 << 20


def unpack_xz(packed, limit):
    """The unpacked bytes of an xz file of one or several streams; ValueError says what is wrong with it."""
    try:
        import lzma
    except ImportError:
        raise ValueError("an xz file, and this Python has no module lzma; unpack it with `xz -dk`") from None
    out = bytearray()
    try:
        while packed:
            stream = lzma.LZMADecompressor(lzma.FORMAT_XZ)
            piece = stream.decompress(packed, _PIECE)
            while True:
                out += piece
                if len(out) > limit:
                    raise ValueError(f"unpacks to more than {limit} bytes")
                if stream.eof:
                    break
                if stream.needs_input:
                    raise ValueError("truncated or corrupt: the packed data end too early")
                piece = stream.decompress(b"", _PIECE)
            packed = stream.unused_data
            padding = len(packed) - len(packed.lstrip(b"\0"))
            packed = packed[padding - padding % 4 :]
    except lzma.LZMAError as error:
        raise ValueError(f"truncated or corrupt: {error}") from None
    return bytes(out)


def read_tar(tar, visit):
    """Calls visit(name, content), both bytes, for each regular file; ValueError says what else there is, or what is wrong."""
    import io
    import tarfile

    try:
        with tarfile.open(fileobj=io.BytesIO(tar), mode="r:", encoding="utf-8", errors="surrogateescape") as archive:
            for member in archive:
                if member.isdir():
                    continue
                name = member.name.encode("utf-8", "surrogateescape")
                where = f"member '{name.decode('utf-8', 'backslashreplace')}'"
                if not member.isreg():
                    raise ValueError(f"{where}: not a regular file")
                if not 0 <= member.size <= len(tar):
                    raise ValueError(f"{where}: corrupt header")
                content = archive.extractfile(member).read()
                if len(content) != member.size:
                    raise ValueError(f"{where}: truncated after {len(content)} of {member.size} bytes")
                visit(name, content)
            if any(tar[archive.offset : archive.offset + tarfile.BLOCKSIZE]):
                raise ValueError("truncated or corrupt archive: damaged header")  # tarfile ends there without a word
    except tarfile.TarError as error:
        raise ValueError(f"truncated or corrupt archive: {error}") from None
