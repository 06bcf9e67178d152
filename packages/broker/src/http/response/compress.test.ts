import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { compressed, encodingFor } from './compress.ts'

test.each([
  ['', null],
  ['identity', null],
  ['gzip', 'gzip'],
  ['GZIP, deflate', 'gzip'],
  ['gzip, br', 'br'],
  ['br;q=0, gzip;q=0.5', 'gzip'],
  ['gzip;q=0', null],
  ['*', 'gzip'],
  ['*, gzip;q=0', null],
  ['gzip;q=nonsense', null],
])('accepting %j gives %j', (accepted, expected) => {
  expect(encodingFor(accepted)).toBe(expected)
})

const answer = (body: string) => ({ status: 200, headers: { etag: '"x"' }, body })

test('a compressed response inflates to the original', async () => {
  const body = JSON.stringify(Array.from({ length: 500 }, (_, n) => ({ n, name: `stack-${n} é` })))
  const gzip = await compressed(answer(body), 'gzip')
  const br = await compressed(answer(body), 'br')
  expect([gunzipSync(gzip.body as Buffer).toString(), brotliDecompressSync(br.body as Buffer).toString()]).toEqual([body, body])
  expect(gzip.headers).toEqual({ etag: '"x"', vary: 'accept-encoding', 'content-encoding': 'gzip' })
})

test('a small or not requested response is not compressed', async () => {
  expect(await compressed(answer('x'.repeat(1024)), 'gzip')).toEqual(answer('x'.repeat(1024)))
  expect((await compressed(answer('x'.repeat(1025)), undefined)).body).toHaveLength(1025)
})
