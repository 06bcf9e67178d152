// Guessing keys: what it costs, what it tells, and whom it leaves alone.
// long: starts more than one broker
import { generatePak } from '@brokkr/contract/auth/pak.ts'
import { createGenerator, startTestBroker, type TestBroker, unique } from '@brokkr/testing/broker.ts'
import { database } from '@brokkr/testing/servers/postgres.ts'
import { beforeAll, expect, test } from 'vitest'

let broker: TestBroker
let databaseUrl: string
beforeAll(async () => {
  databaseUrl = (await database()).url
  broker = await startTestBroker({ databaseUrl })
  return () => broker.kill()
})
const ask = async (at: TestBroker, path: string, pak: string) => {
  const response = await fetch(`${at.url}/api/v1${path}`, { headers: { authorization: `Bearer ${pak}`, 'x-request-id': 'same' } })
  const { date: _, ...headers } = Object.fromEntries(response.headers)
  return { status: response.status, headers, text: await response.text() }
}

test('[X19] sixty failures are throttled, and a valid PAK from the same address is not', async () => {
  // The bucket fills again while a slow machine guesses: sixty at a time, until the address is over its share.
  const guesses: Awaited<ReturnType<typeof ask>>[] = []
  while (!guesses.some(({ status }) => status === 429) && guesses.length < 3000)
    guesses.push(...(await Promise.all(Array.from({ length: 60 }, async () => ask(broker, '/stacks', (await generatePak()).pak)))))
  const limited = guesses.filter(({ status }) => status === 429)
  expect(guesses.filter(({ status }) => status !== 429 && status !== 401)).toEqual([])
  expect(limited.length).toBeGreaterThan(0)
  for (const { headers, text } of limited) {
    expect(Number((headers as Record<string, string>)['retry-after'])).toBeGreaterThanOrEqual(1)
    expect((JSON.parse(text) as { code: string }).code).toBe('rate_limited')
  }
  expect((await ask(broker, '/stacks', broker.adminPak)).status).toBe(200)
})

test('[X19] unknown, wrong and revoked PAKs get identical responses', async () => {
  const fresh = await broker.sibling()
  const { pak, id } = await fresh.admin.createAdminPak({ body: { name: unique('k') } })
  const [prefix, short, long = ''] = pak.split('_')
  const wrong = [prefix, short, `${long.slice(0, -1)}${long.endsWith('z') ? 'y' : 'z'}`].join('_')
  await fresh.admin.revokeAdminPak({ params: { id } })
  await expect.poll(async () => (await ask(fresh, '/stacks', pak)).status).toBe(401)
  const answers = await Promise.all(
    [wrong, pak, (await generatePak()).pak, `${prefix}_${short}_x`].map((key) => ask(fresh, '/stacks', key)),
  )
  expect(answers[0]).toMatchObject({ status: 401, text: '' })
  for (const answer of answers) expect(answer).toEqual(answers[0])
  await fresh.kill()
})

test('[X19] a name of another generator gives the same response as an unknown name', async () => {
  const fresh = await broker.sibling()
  const [mine, theirs] = [await createGenerator(fresh), await createGenerator(fresh)]
  const name = unique('foreign')
  await theirs.client.createStack({ body: { name, generator_id: theirs.generator.id } })
  const [foreign, missing] = [await ask(fresh, `/stacks?name=${name}`, mine.pak), await ask(fresh, `/stacks?name=${name}x`, mine.pak)]
  expect(foreign).toMatchObject({ status: 200, text: '[]' })
  expect(foreign).toEqual(missing)
  await fresh.kill()
})
