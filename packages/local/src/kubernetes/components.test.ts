import { expect, test } from 'vitest'
import { tempDir } from '../test-parts/temp-dir.ts'
import { type Component, componentArguments, portNames, readyAddress, stopOrder } from './components.ts'
import { openPlaneDir, type PlaneDir } from './plane-dir.ts'

const plain = { liftLimits: false, apiserverArgs: [] }
const components: Component[] = ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kwok']

test('components stop in the order clients, API server, etcd', () => {
  expect(stopOrder.flat().toSorted()).toEqual(components.toSorted())
  expect(stopOrder.flat().slice(-2)).toEqual(['kube-apiserver', 'etcd'])
})

test('components listen on loopback only, and etcd on no port', async () => {
  const plane = await openPlaneDir(tempDir())
  const listening = components
    .flatMap((component) => componentArguments(component, plane, plain))
    .filter((argument) => /^--(bind|server)-address|^--listen/.test(argument))
  expect(listening).toEqual([
    '--listen-client-urls=unix://etcd.sock',
    '--listen-peer-urls=unix://etcd-peer.sock',
    '--bind-address=127.0.0.1',
    '--bind-address=127.0.0.1',
    '--bind-address=127.0.0.1',
    `--server-address=127.0.0.1:${plane.ports.kwok}`,
  ])
})

test('arguments, which every local user can read, contain no token', async () => {
  const plane = await openPlaneDir(tempDir())
  const line = components.flatMap((component) => componentArguments(component, plane, plain)).join(' ')
  expect([plane.token, plane.plainToken].filter((token) => line.includes(token))).toEqual([])
})

test.each([
  [{ liftLimits: false, apiserverArgs: [] }, []],
  [
    { liftLimits: true, apiserverArgs: [] },
    ['--enable-priority-and-fairness=false', '--max-requests-inflight=0', '--max-mutating-requests-inflight=0'],
  ],
  [{ liftLimits: false, apiserverArgs: ['--audit-log-path=-'] }, ['--audit-log-path=-']],
])('the options %o append %j to the arguments of the API server', async (options, added) => {
  const plane = await openPlaneDir(tempDir())
  const base = componentArguments('kube-apiserver', plane, plain)
  expect(componentArguments('kube-apiserver', plane, options)).toEqual([...base, ...added])
})

test('each component has its own readiness port', () => {
  const ports = { apiserver: 1, controllerManager: 2, scheduler: 3, kwok: 4 }
  const addresses = (Object.keys(portNames) as (keyof typeof portNames)[]).map((component) =>
    readyAddress(component, { ports } as PlaneDir),
  )
  expect(addresses).toEqual([
    'https://127.0.0.1:1/readyz',
    'https://127.0.0.1:2/healthz',
    'https://127.0.0.1:3/readyz',
    'https://127.0.0.1:4/healthz',
  ])
})
