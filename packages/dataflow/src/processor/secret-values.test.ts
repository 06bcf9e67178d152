import { expect, test } from 'vitest'
import { createRedact } from './secret-values.ts'
import { flowOf } from './test-parts/scripted-flow.ts'

const kafka = (more: object) => ({ type: 'kafka', config: { brokers: ['b:9092'], topic: 't', ...more } })
const postgres = (connectionString: string) => ({ type: 'postgresql', config: { connectionString, table: 't' } })
const registry = (url: string) => kafka({ format: 'avro', schemaRegistry: { url } })

test.each([
  ['a password in a registry URL', { sink: registry('https://app:s3cr3t-pw@registry:8081') }, ['s3cr3t-pw']],
  ['an encoded one', { sink: registry('https://app:p%40ss%2Fword@registry:8081/x') }, ['p%40ss%2Fword', 'p@ss/word']],
  ['a token in a registry URL', { sink: registry('https://tok-123456@registry:8081') }, ['tok-123456']],
  ['a password with an @', { sink: postgres('postgres://app:p@ssw0rd@db/x') }, ['p@ssw0rd']],
  ['a password with a slash', { sink: registry('https://app:s3cr/et?pw#@registry:8081') }, ['s3cr/et?pw#']],
  ['a password in the query of a URL', { sink: postgres('postgres://app@db/x?sslmode=require&password=qu3ry') }, ['qu3ry']],
  ['a plain password in pairs', { sink: postgres('host=db user=app password=pl4in dbname=x') }, ['pl4in']],
  ['a quoted password with blanks', { sink: postgres("host=db password = 'two w0rds here' dbname=x") }, ['two w0rds here']],
  ['a quoted password with quotes', { sink: postgres("host=db password='it\\'s \\\\ odd' dbname=x") }, ["it's \\ odd", "it\\'s \\\\ odd"]],
  ['SASL', { sink: kafka({ sasl: { username: 'app', password: 's4sl-pw' } }) }, ['s4sl-pw']],
] as const)('no text shows %s', (_case, spec, secrets) => {
  const redact = createRedact(flowOf(spec))
  for (const secret of secrets) {
    expect(redact(`cannot connect: ${secret} was refused`)).toBe('cannot connect: *** was refused')
    expect(redact(JSON.stringify({ reason: `x${secret}y` }))).not.toContain(JSON.stringify(secret).slice(1, -1))
  }
})

test('user and host of a URL stay readable', () => {
  const redact = createRedact(flowOf({ sink: postgres('postgres://app:s3cr3t@db.example/x') }))
  expect(redact('role app at db.example: s3cr3t is wrong')).toBe('role app at db.example: *** is wrong')
})

test('a token obtained at run time is redacted like the secrets of the flow', () => {
  const redact = createRedact(flowOf({ sink: postgres('postgres://app:s3cr3t@db.example/x') }))
  expect(redact('tok-1 and s3cr3t')).toBe('tok-1 and ***')
  for (const token of ['tok-1', 'tok-1-renewed', 'x/y+z=']) redact.add(token)
  expect(redact('tok-1 tok-1-renewed s3cr3t x%2Fy%2Bz%3D')).toBe('*** *** *** ***')
})
