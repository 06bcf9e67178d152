// The one control plane of a run, in its owner: etcd and the API server on first request, controllers and nodes when first asked for.
import { type AssetProgress, ensureKubeAssets, type KubeAssets } from '@brokkr/local/assets/kube-assets.ts'
import { type ControlPlane, startControlPlane } from '@brokkr/local/kubernetes/kubernetes.ts'
import type { RecordedProcess } from '@brokkr/local/supervisor/process-table.ts'
import { once } from './once.ts'
import type { PlaneAddress } from './protocol.ts'
import { identity } from './test-run.ts'

export type SharedKube = {
  plane(wish: { controllers: boolean; nodes: number }): Promise<PlaneAddress>
  assets(stage: 'core' | 'full'): Promise<KubeAssets>
  stop(): Promise<void>
}
export type SharedKubeOptions = {
  dir: string
  signal: AbortSignal
  onStarted: (started: RecordedProcess[]) => void
  onProgress: (line: string) => void
}

export function sharedKube(options: SharedKubeOptions): SharedKube {
  const { signal } = options
  const onProgress = limitStarts(options.onProgress)
  const assets = {
    core: once(() => ensureKubeAssets({ stage: 'core', onProgress, signal })),
    full: once(() => ensureKubeAssets({ stage: 'full', onProgress, signal })),
  }
  const noted = async (plane: ControlPlane, work: Promise<unknown>) => {
    await work
    options.onStarted(Object.values(plane.pids()).map(identity))
  }
  // The plane knows all its programs from the beginning, because controllers may be asked for later.
  const core = once(async () => {
    const plane = await startControlPlane({ dir: options.dir, assets: await assets.full(), signal })
    await noted(plane, Promise.resolve())
    return plane
  })
  const controllers = once(async () => {
    const plane = await core()
    await noted(plane, plane.startControllers())
  })
  let nodes: Promise<unknown> = Promise.resolve()

  return {
    async plane(wish) {
      const plane = await core()
      if (wish.controllers || wish.nodes > 0) await controllers()
      if (wish.nodes > 0) await (nodes = nodes.catch(() => undefined).then(() => noted(plane, plane.ensureNodes(wish.nodes))))
      return toAddress(plane, controllers.begun())
    },
    assets: (stage) => assets[stage](),
    async stop() {
      const plane = core.begun() ? await core().catch(() => undefined) : undefined
      if (controllers.begun()) await controllers().catch(() => undefined)
      await nodes.catch(() => undefined)
      await plane?.stop()
    },
  }
}

/** A build speaks several times a second for minutes; a line every few seconds shows that it goes on. */
function limitStarts(say: (line: string) => void): (progress: AssetProgress) => void {
  let last = { step: '', ms: 0 }
  return ({ part, step, detail }) => {
    const now = performance.now()
    if (step === 'found' || (last.step === `${part} ${step}` && now - last.ms < 5_000)) return
    last = { step: `${part} ${step}`, ms: now }
    say(`Kubernetes, ${part}: ${step} ${detail}`)
  }
}

function toAddress(plane: ControlPlane, hasControllers: boolean): PlaneAddress {
  const { url, kubeconfigPath, kubeconfigCertPath, caPem, token, plainToken, podLogPath } = plane
  return { url, kubeconfigPath, kubeconfigCertPath, caPem, token, plainToken, podLogPath, hasControllers }
}
