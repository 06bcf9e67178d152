import { expect, test } from 'vitest'
import { readOperatorConfig } from './config.ts'
import { processorDeployment } from './desired/deployment.ts'
import { hashEnvironment, hashSecretEnv } from './desired/pod.ts'
import { specSecret } from './desired/secret.ts'
import { annotation } from './names.ts'
import { validateStored } from './passes/validate-flow.ts'
import { toProcessorEnv } from './processor-environment.ts'
import { reduceObject, reducePod } from './watches.ts'

const config = readOperatorConfig({ PROCESSOR_IMAGE: 'example.invalid/a:1' })
const kafka = (topic: string) => ({ type: 'kafka', config: { brokers: ['a:9092'], topic } })
const object = {
  apiVersion: 'dataflow.dataflow.io/v1',
  kind: 'DataFlow',
  metadata: { name: 'f', namespace: 'n', uid: 'u' },
  spec: { source: kafka('in'), sink: kafka('out') },
}
const { flow } = validateStored(object)

function build(proxy: string) {
  const environment = {
    image: 'example.invalid/a:1',
    labels: {},
    ...toProcessorEnv(config, { https_proxy: proxy, HTTP_PROXY: 'http://proxy.example:3128', NO_PROXY: 'db.example' }),
  }
  const { secretEnv } = environment
  const parts = { oneShots: {}, salt: Buffer.alloc(32), secretPlaces: [], secretEnv }
  const { object: secret, specHash, secretEnvHash } = specSecret(object, flow!, parts)
  const deployment = processorDeployment(object, flow!, { specHash, secretEnvHash, environment, replicas: 1 })
  return { environment, secret, specHash, secretEnvHash, deployment }
}

test('a proxy address with a password is in the Secret of the flow alone', () => {
  const proxy = 'http://user:canary-password@proxy.example:3128'
  const { secret, deployment } = build(proxy)
  expect(secret.data?.['HTTPS_PROXY']).toBe(Buffer.from(proxy).toString('base64'))
  expect(JSON.stringify(deployment)).not.toMatch(/canary-password|user:/)
  const text = JSON.stringify(deployment)
  expect(text).toContain('{"name":"HTTPS_PROXY","valueFrom":{"secretKeyRef":{"name":"dataflow-f-spec","key":"HTTPS_PROXY"}}}')
  expect(text).toContain('{"name":"HTTP_PROXY","value":"http://proxy.example:3128"}')
})

test('another password rolls the pod as a change of the environment, which the limit of rollouts counts, and not of the spec', () => {
  const [first, second] = [build('http://u:a@proxy.example'), build('http://u:b@proxy.example')]
  const hashOf = ({ deployment }: typeof first) => deployment.metadata.annotations?.[annotation.environmentHash]
  const templateOf = ({ deployment }: typeof first) => JSON.stringify(deployment.spec?.['template'])
  expect(first.specHash).toBe(second.specHash)
  expect(hashOf(first)).not.toBe(hashOf(second))
  expect(templateOf(first)).not.toBe(templateOf(second))
})

test('an unsalted hash is without secret values, and an environment without them has no hash of them', () => {
  const [first, second, plain] = ['http://u:a@proxy.example', 'http://u:b@proxy.example', 'http://proxy.example'].map(build)
  expect(hashEnvironment(first!.environment)).toBe(hashEnvironment(second!.environment))
  expect(first!.secretEnvHash).not.toBe(hashSecretEnv(first!.environment.secretEnv, Buffer.alloc(32, 1)))
  expect(plain!.secretEnvHash).toBeUndefined()
  expect(plain!.deployment.metadata.annotations?.[annotation.environmentHash]).toBe(hashEnvironment(plain!.environment))
})

test('caches keep of a pod only what decisions need', () => {
  const pod = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'p', namespace: 'n', uid: 'u', labels: { a: 'b' }, annotations: { big: 'x' }, managedFields: [] },
    spec: { containers: [{ name: 'c', env: [{ name: 'A', value: 'x' }] }] },
    status: { phase: 'Pending', podIP: '10.0.0.1', containerStatuses: [{ state: { waiting: { reason: 'Crash', message: 'long' } } }] },
  }
  expect(JSON.parse(JSON.stringify(reducePod(pod)))).toEqual({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'p', namespace: 'n', uid: 'u', labels: { a: 'b' } },
    status: { phase: 'Pending', podIP: '10.0.0.1', containerStatuses: [{ state: { waiting: { reason: 'Crash' } } }] },
  })
})

test('caches keep no copy of an applied object and no template of Jobs', () => {
  const annotations = { 'kubectl.kubernetes.io/last-applied-configuration': '{}', kept: 'x' }
  const cron = { apiVersion: 'batch/v1', kind: 'CronJob', metadata: { name: 'c', annotations }, spec: { suspend: true, jobTemplate: {} } }
  expect(reduceObject(cron)).toEqual({ ...cron, metadata: { name: 'c', annotations: { kept: 'x' } }, spec: { suspend: true } })
})
