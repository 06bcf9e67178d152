import { request } from 'node:https'
import { systemClock } from '@brokkr/runtime/clock.ts'
import { silentLog as log } from '@brokkr/runtime/logging/log.ts'
import { cluster } from '@brokkr/testing/servers/kube.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { textAt } from '../client/fields.ts'
import type { Kube } from '../client/kube.ts'
import type { KubeObject } from '../client/object.ts'
import { CONFIG_MAP, configMap, openTestKube } from '../test-parts/open-test-kube.ts'
import { newCa, newLeaf } from '../test-parts/strange-server.ts'
import type { AdmissionRequest } from './admission-review.ts'
import { type AdmissionHandler, type AdmissionOptions, startAdmissionServer } from './admission-server.ts'
import { syncWebhookCertificate } from './webhook-certificate-sync.ts'

const DAY_MS = 86_400_000
let kube: Kube
let at: Awaited<ReturnType<typeof cluster>>
beforeAll(async () => {
  at = await cluster({ controllers: false })
  kube = await openTestKube(at)
})

/** A webhook that sees one namespace alone, so that other tests do not meet it. */
const configuration = (namespace: string, port: number): KubeObject => ({
  apiVersion: 'admissionregistration.k8s.io/v1',
  kind: 'ValidatingWebhookConfiguration',
  metadata: { name: `hook-${namespace}` },
  webhooks: [
    {
      name: 'one.example.com',
      clientConfig: { url: `https://127.0.0.1:${port}/validate` },
      namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } },
      rules: [{ apiGroups: [''], apiVersions: ['v1'], resources: ['configmaps'], operations: ['CREATE', 'UPDATE', 'DELETE'] }],
      failurePolicy: 'Fail',
      sideEffects: 'None',
      admissionReviewVersions: ['v1'],
      timeoutSeconds: 5,
    },
  ],
})

test('the API server calls the webhook through every step of a certificate renewal', async () => {
  const namespace = await at.namespace()
  const seen: AdmissionRequest[] = []
  const validate: AdmissionHandler = (review) => {
    seen.push(review)
    const word = textAt(review.object, 'data', 'word')
    if (word === 'bad')
      return {
        allowed: false,
        message: 'ConfigMap is invalid: 1 problem: data.word: bad',
        causes: [{ field: 'data.word', reason: 'FieldValueInvalid', message: 'bad' }],
      }
    return { allowed: true, warnings: word === 'odd' ? ['data.word is odd'] : [] }
  }
  // The first certificates are of four years ago, so everything is due now.
  let nowMs = Date.now() - 4 * 365 * DAY_MS
  const name = `hook-${namespace}`
  const sync = (lead: boolean) =>
    syncWebhookCertificate(
      { kube, clock: { ...systemClock, now: () => nowMs } },
      {
        secret: { name, namespace },
        hosts: ['127.0.0.1'],
        configurations: [{ kind: 'ValidatingWebhookConfiguration', name }],
        lead,
        fieldManager: 'brokkr-test',
      },
    )
  expect(await sync(false)).toBeUndefined()
  const first = await sync(true)
  expect(await sync(false)).toEqual(first)
  const server = await startAdmissionServer(
    { log },
    { host: '127.0.0.1', port: 0, certificate: first ?? (await newLeaf(await newCa())), handlers: { '/validate': validate } },
  )
  onTestFinished(() => server.close())
  await kube.create(configuration(namespace, server.port))
  onTestFinished(() => void kube.delete({ apiVersion: 'admissionregistration.k8s.io/v1', kind: 'ValidatingWebhookConfiguration', name }))

  const bundles: number[] = []
  const renew = async (toMs: number) => {
    nowMs = toMs
    const leaf = await sync(true)
    if (leaf) server.setCertificate(leaf)
    const live = await kube.get({ apiVersion: 'admissionregistration.k8s.io/v1', kind: 'ValidatingWebhookConfiguration', name })
    const bundle = Buffer.from(textAt(live, 'webhooks', 0, 'clientConfig', 'caBundle') ?? '', 'base64').toString()
    bundles.push(bundle.split('BEGIN').length - 1)
    return leaf
  }
  const now = Date.now()
  await renew(now) // the next CA is announced
  const old = await renew(now) // the certificate, long over, is renewed under the old CA
  const judged = (word: string) => kube.create(configMap(namespace, `x-${word}-${seen.length}`, { word }))
  await waitFor('the webhook to answer', () => judged('good'))
  const fresh = await renew(now + 61_000) // the new CA is used
  expect(fresh?.cert).not.toBe(old?.cert)
  await judged('good')
  await renew(now + 61_000 + DAY_MS) // the old one leaves
  await waitFor('the webhook to answer without the old CA', () => judged('good'))
  expect(bundles).toEqual([2, 2, 2, 1])

  await expect(judged('bad')).rejects.toMatchObject({
    reason: 'Invalid',
    status: 422,
    message: expect.stringContaining('data.word: bad') as string,
  })
  const odd = await kube.apply(configMap(namespace, 'odd', { word: 'odd' }), { fieldManager: 'test' })
  expect(odd.warnings).toEqual(['data.word is odd'])
  await kube.delete({ ...CONFIG_MAP, namespace, name: 'odd' })
  const last = seen.at(-1)
  expect(last).toMatchObject({
    operation: 'DELETE',
    kind: { group: '', version: 'v1', kind: 'ConfigMap' },
    namespace,
    name: 'odd',
    oldObject: { data: { word: 'odd' } },
  })
  expect(last).not.toHaveProperty('object')
})

const ca = await newCa()
async function serve(handler: AdmissionHandler, more: Partial<AdmissionOptions> = {}) {
  const server = await startAdmissionServer(
    { log },
    { host: '127.0.0.1', port: 0, certificate: await newLeaf(ca), handlers: { '/v': handler }, ...more },
  )
  onTestFinished(() => server.close())
  return (body: string, options: { path?: string; method?: string; type?: string } = {}): Promise<{ status: number; text: string }> =>
    new Promise((resolve, reject) => {
      const call = request(
        {
          host: '127.0.0.1',
          port: server.port,
          path: options.path ?? '/v',
          method: options.method ?? 'POST',
          ca: ca.cert,
          agent: false,
          headers: { 'content-type': options.type ?? 'application/json' },
        },
        (answer) => {
          let text = ''
          answer.setEncoding('utf8').on('data', (part: string) => (text += part))
          answer.on('end', () => resolve({ status: answer.statusCode ?? 0, text }))
        },
      )
      call.on('error', reject)
      call.end(body)
    })
}
const review = (object: unknown = { metadata: {} }) =>
  JSON.stringify({
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    request: { uid: 'u', operation: 'CREATE', kind: { kind: 'X' }, object },
  })

test('a request that is not a review is rejected by its status and never allowed', async () => {
  const call = await serve(() => ({ allowed: true }), { bodyBytesMax: 2_000 })
  expect((await call(review())).status).toBe(200)
  const statuses = [
    await call(review(), { path: '/other' }),
    await call(review(), { path: '/constructor' }),
    await call('', { method: 'GET' }),
    await call(review(), { type: 'text/plain' }),
    await call('x'.repeat(3_000)).catch(() => ({ status: 413, text: '' })),
    await call('{'),
    await call('{"kind":"Other"}'),
    await call(JSON.stringify({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request: { uid: 'u' } })),
  ]
  expect(statuses.map(({ status }) => status)).toEqual([404, 404, 405, 415, 413, 400, 400, 400])
  expect(statuses.filter(({ text }) => text.includes('allowed'))).toEqual([])
})

test('a handler that throws or never ends is an error of the server, without its text', async () => {
  const throws = await serve(() => {
    throw new Error('the password is x')
  })
  const hangs = await serve(() => new Promise(() => undefined), { timeoutMs: 50 })
  const answers = [await throws(review()), await hangs(review())]
  expect(answers.map(({ status }) => status)).toEqual([500, 500])
  expect(answers.some(({ text }) => text.includes('password'))).toBe(false)
})

test('a verdict is written with patch, causes and a bounded message', async () => {
  const patch = await serve(() => ({ allowed: true, patch: [{ op: 'add', path: '/a', value: 9007199254740993n }] }))
  const allowed = JSON.parse((await patch(review())).text) as { response: { patch: string } }
  expect(Buffer.from(allowed.response.patch, 'base64').toString()).toBe('[{"op":"add","path":"/a","value":9007199254740993}]')
  const long = await serve(() => ({ allowed: false, message: 'x'.repeat(9_000), causes: [{ message: 'm' }] }))
  const denied = JSON.parse((await long(review())).text) as { response: { allowed: boolean; status: { message: string; code: number } } }
  expect([denied.response.allowed, denied.response.status.code, denied.response.status.message.length]).toEqual([false, 422, 3_000])
})
