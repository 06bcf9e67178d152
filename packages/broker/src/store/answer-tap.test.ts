import { PassThrough } from 'node:stream'
import { expect, test } from 'vitest'
import { AnswerTap } from './answer-tap.ts'

const message = (letter: string, body: string): Buffer => {
  const bytes = Buffer.from(`${letter}....${body}`)
  bytes.writeInt32BE(bytes.length - 1, 1)
  return bytes
}
const ready = message('Z', 'I')
const long = 'x'.repeat(300)

/** What the driver and each statement were told, in order. */
function tapped(statements: readonly string[]) {
  const told: string[] = []
  const stream = new PassThrough()
  stream.on('data', (bytes: Buffer) => {
    for (let at = 0; at < bytes.length; at += 1 + bytes.readInt32BE(at + 1)) {
      told.push(bytes.toString('utf8', at + 5, at + 1 + bytes.readInt32BE(at + 1)))
      // The driver sends the next statement as soon as PostgreSQL is ready for it.
      if (bytes[at] === 0x5a && told.filter((each) => each === 'I').length === statements.length) tap.expect([statement('later')])
    }
  })
  const statement = (name: string) => ({
    takeRow: (bytes: Buffer, at: number) => void told.push(`${name}: ${bytes.toString('utf8', at, at + bytes.readInt32BE(at - 4) - 4)}`),
  })
  const tap = new AnswerTap(stream)
  tap.expect(statements.map(statement))
  return { stream, told }
}

test('rows go to their statements and all else to the driver in order, wherever the bytes are cut', async () => {
  const answer = Buffer.concat(
    [
      [message('1', 'parsed'), message('2', ''), message('T', 'T'), message('D', 'one'), message('D', long), message('C', 'two'), ready],
      [message('2', ''), message('E', 'failed'), ready],
      [message('2', ''), message('D', 'three'), message('S', 'a setting'), message('D', ''), message('C', 'two'), ready],
      [message('2', ''), message('D', 'four'), message('C', 'one row'), ready],
      [message('2', 'bound'), message('D', 'of nobody'), ready, message('S', 'a setting')],
    ].flat(),
  )
  const first = ['parsed', 'T', 'a: one', `a: ${long}`, 'two', 'I', 'failed', 'I']
  const rest = ['c: three', 'a setting', 'c: ', 'two', 'I', 'later: four', 'one row', 'I', 'bound', 'of nobody', 'I', 'a setting']
  for (let size = 1; size <= answer.length; size += 1) {
    const { stream, told } = tapped(['a', 'b', 'c'])
    for (let at = 0; at < answer.length; at += size) stream.write(answer.subarray(at, at + size))
    stream.end()
    await new Promise((resolve) => stream.on('end', resolve))
    expect(told, `pieces of ${size}`).toEqual([...first, ...rest])
  }
})
