// A program with three open resources, for tests of signals. The first argument selects how one of them closes.
import { createLifecycle } from '../lifecycle.ts'
import { createLog } from '../logging/log.ts'

const [how = 'well', graceMs = '10000'] = process.argv.slice(2)
const log = createLog({ name: 'child' })
const lifecycle = createLifecycle({ log }, { graceMs: Number(graceMs) })
const keepAlive = setInterval(() => {}, 60_000)

lifecycle.onClose('first opened', () => clearInterval(keepAlive))
lifecycle.onClose('middle', () => {
  if (how === 'hangs') return new Promise<void>(() => {})
  if (how === 'fails') throw new Error('postgres://u:S3CR3T@h refused')
  return Promise.resolve()
})
lifecycle.onClose('last opened', () => Promise.resolve())
lifecycle.listenForSignals()
lifecycle.signal.addEventListener('abort', () => log.info('aborted'))
if (how === 'bug') setImmediate(() => void Promise.reject(new Error('postgres://u:S3CR3T@h forgotten')))
log.info('ready')
