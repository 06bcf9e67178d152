import { ApiError } from '@brokkr/contract/errors.ts'
import { afterEach, expect, test } from 'vitest'
import { createManifestWork } from './manifest-work.ts'

let work: ReturnType<typeof createManifestWork>
afterEach(() => work.close())
const start = (options: Parameters<typeof createManifestWork>[0] = {}) => (work = createManifestWork(options))
const config = (name: string, text = '') => `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ${name}}\ndata: {text: "${text}"}\n`
const secret = 'apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: S3CR3T}\n'
const many = (count: number) => `a: [${'x, '.repeat(count)}x]\n`

test.each([0, 1 << 30])('a manifest is checked equally inline and in a worker (inline up to %i)', async (inlineCharsMax) => {
  start({ inlineCharsMax })
  expect(await work.check(config('a'), 'lenient')).toMatchObject({ warnings: [] })
  expect((await work.check('a: 1\n', 'lenient')).warnings).toHaveLength(3)
  expect(await work.mask(secret)).not.toContain('S3CR3T')
  const { objects } = await work.compare(config('a') + `---\n${config('b')}`, config('b', 'x'), 'lenient')
  expect(objects.map(({ name, change }) => [name, change])).toEqual([
    ['b', 'changed'],
    ['a', 'removed'],
  ])
  expect((await work.compare(config('a'), null, 'lenient')).objects).toMatchObject([{ name: 'a', change: 'removed' }])
  const refused = await work.check('a: [S3CR3T', 'lenient').then(
    () => null,
    (error: unknown) => error as ApiError,
  )
  expect(refused).toMatchObject({ code: 'invalid_deployment_object', details: { line: expect.any(Number), column: expect.any(Number) } })
  expect(refused?.message).not.toContain('S3CR3T')
  await expect(work.check(many(200_001), 'lenient')).rejects.toMatchObject({ details: { limit: 200_000 } })
})

test('a manifest over the time or memory limit is rejected', async () => {
  start({ inlineCharsMax: 0, timeoutMs: 1 })
  await expect(work.check(many(150_000), 'lenient')).rejects.toMatchObject({
    code: 'invalid_deployment_object',
    details: { limit: 'manifest_seconds' },
  })
  expect(await work.mask(`${secret}---\n${many(150_000)}`)).toMatch(/^# not shown/)
  await work.close()
  start({ inlineCharsMax: 0, memoryMb: 8 })
  await expect(work.check(many(190_000), 'lenient')).rejects.toMatchObject({ details: { limit: 'manifest_memory_mib' } })
})

test('a manifest beyond the queue limit is refused as overloaded', async () => {
  start({ inlineCharsMax: 0, waitingMax: 1 })
  const jobs = Array.from({ length: 8 }, () => work.check(many(100_000), 'lenient').catch((error: unknown) => error))
  const outcomes = await Promise.all(jobs)
  const refused = outcomes.filter((outcome) => outcome instanceof ApiError)
  expect(refused.map((error) => error.code)).toEqual(Array.from({ length: 5 }, () => 'overloaded'))
})
