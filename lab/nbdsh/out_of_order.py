"""A thousand requests in flight, answered in any order, each with its own content."""
import os

h.connect_uri(os.environ["NBD_URI"])
done = []
for number in range(1000):
    h.aio_pwrite(number.to_bytes(4, "big") * 1024, number * 4096,
                 lambda error, number=number: done.append(number) or 1)
while len(done) < 1000:
    h.poll(-1)
assert sorted(done) == list(range(1000))
buffers = [nbd.Buffer(4096) for _ in range(1000)]
cookies = [h.aio_pread(buffer, number * 4096) for number, buffer in enumerate(buffers)]
for number, cookie in enumerate(cookies):
    while not h.aio_command_completed(cookie):
        h.poll(-1)
    assert bytes(buffers[number].to_bytearray()) == number.to_bytes(4, "big") * 1024
h.shutdown()
