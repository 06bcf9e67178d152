// Texts as one parameter of type text[], in the server's binary form: no quotes, no escapes, nothing to parse on either side. In the
// text form a thousand rows with JSON in them cost this process ten times as much.

const textOid = 25
const headBytes = 20
/** What a text may need: UTF-8 takes at most three bytes for a UTF-16 unit. */
const bytesPerUnit = 3
const keptBytesMax = 8 << 20

let scratch = Buffer.allocUnsafe(256 * 1024)

export function textArray(values: readonly (string | null)[]): Buffer {
  let end = headBytes
  let hasNull = 0
  for (const value of values) {
    if (value === null) {
      hasNull = 1
      reserve(end, 4)
      scratch.writeInt32BE(-1, end)
      end += 4
      continue
    }
    reserve(end, 4 + value.length * bytesPerUnit)
    const written = scratch.write(value, end + 4)
    scratch.writeInt32BE(written, end)
    end += 4 + written
  }
  // Dimensions, whether there are nulls, type of the elements, how many, where counting begins.
  for (const [at, number] of [1, hasNull, textOid, values.length, 1].entries()) scratch.writeInt32BE(number, at * 4)
  const array = Buffer.from(scratch.subarray(0, end))
  if (scratch.length > keptBytesMax) scratch = Buffer.allocUnsafe(256 * 1024)
  return array
}

/** Room for so many bytes behind `end`. */
function reserve(end: number, bytes: number): void {
  if (end + bytes <= scratch.length) return
  const larger = Buffer.allocUnsafe(Math.max(2 * scratch.length, end + bytes))
  scratch.copy(larger, 0, 0, end)
  scratch = larger
}
