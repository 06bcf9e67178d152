// The folder of one control plane: keys, tokens, ports and settings. Created once; a later start in the same folder reuses
// credentials, ports and the data of etcd.
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { freePort, freePorts } from '../supervisor/free-ports.ts'
import { writeAtomic } from '../supervisor/write-atomic.ts'
import { kubeconfigText } from './kubeconfig-file.ts'
import { kwokConfig, samplePodLog } from './kwok-config.ts'
import { issuePlaneFiles } from './plane-certificates.ts'
import { type PlaneFile, planeFiles } from './plane-files.ts'

export type PlanePorts = { apiserver: number; controllerManager: number; scheduler: number; kwok: number }
type Settings = { ports: PlanePorts; token: string; plainToken: string }
export type PlaneDir = Settings & { dir: string; caPem: string; path: (name: PlaneFile) => string }

export async function openPlaneDir(folder: string): Promise<PlaneDir> {
  const dir = resolve(folder)
  for (const name of [dir, join(dir, 'pki'), join(dir, 'logs')]) await mkdir(name, { recursive: true, mode: 0o700 })
  const path = (name: PlaneFile) => join(dir, planeFiles[name])
  const settings = existsSync(path('settings')) ? await readSettings(path('settings')) : await makeSettings(path)
  return { ...settings, dir, caPem: await readFile(path('caCert'), 'utf8'), path }
}

/** Assigns another port to one component after another program took the old one. */
export async function changePort(plane: PlaneDir, name: keyof PlanePorts): Promise<void> {
  plane.ports[name] = await freePort()
  writeSettings(plane)
}

/** Writes files that are derived from the settings, at each start, so that they match changed ports and this release. */
export async function writeDerivedFiles(plane: PlaneDir, stagesFile: string | undefined): Promise<void> {
  const cluster = { name: 'practice', server: `https://127.0.0.1:${plane.ports.apiserver}`, caPem: plane.caPem }
  const readPlaneFile = (name: PlaneFile) => readFile(plane.path(name), 'utf8')
  const admin = { certPem: await readPlaneFile('adminCert'), keyPem: await readPlaneFile('adminKey') }
  writeAtomic(plane.path('kubeconfig'), kubeconfigText(cluster, { token: plane.token }))
  writeAtomic(plane.path('kubeconfigCert'), kubeconfigText(cluster, admin))
  writeAtomic(plane.path('schedulerConfig'), schedulerConfig(plane.path('kubeconfig')))
  if (!existsSync(plane.path('podLog'))) writeAtomic(plane.path('podLog'), samplePodLog())
  if (stagesFile === undefined) return
  writeAtomic(plane.path('kwokConfig'), kwokConfig(await readFile(stagesFile, 'utf8'), plane.path('podLog')))
}

async function makeSettings(path: PlaneDir['path']): Promise<Settings> {
  const settings = { ports: await newPorts(), token: newToken(), plainToken: newToken() }
  for (const [name, text] of Object.entries(await issuePlaneFiles())) writeAtomic(path(name as PlaneFile), text)
  writeAtomic(path('tokens'), `${settings.token},admin,admin,"system:masters"\n${settings.plainToken},plain,plain,\n`)
  writeSettings({ ...settings, path }) // written last: its existence means that all other files are complete
  return settings
}

async function readSettings(file: string): Promise<Settings> {
  try {
    return JSON.parse(await readFile(file, 'utf8')) as Settings
  } catch (cause) {
    throw new Error(`${file} cannot be read; delete its folder to start with an empty practice cluster`, { cause })
  }
}

function writeSettings({ ports, token, plainToken, path }: Settings & Pick<PlaneDir, 'path'>): void {
  writeAtomic(path('settings'), `${JSON.stringify({ ports, token, plainToken } satisfies Settings, null, 2)}\n`)
}

async function newPorts(): Promise<PlanePorts> {
  const [apiserver, controllerManager, scheduler, kwok] = (await freePorts(4)) as [number, number, number, number]
  return { apiserver, controllerManager, scheduler, kwok }
}

function newToken(): string {
  return randomBytes(24).toString('hex')
}

function schedulerConfig(kubeconfig: string): string {
  return [
    'apiVersion: kubescheduler.config.k8s.io/v1',
    'kind: KubeSchedulerConfiguration',
    `clientConnection: {kubeconfig: ${JSON.stringify(kubeconfig)}, qps: 500, burst: 1000}`,
    'leaderElection: {leaderElect: false}',
    '',
  ].join('\n')
}
