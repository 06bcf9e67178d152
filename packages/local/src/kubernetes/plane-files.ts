// Every file of a control plane's folder, relative to it.

export const planeFiles = {
  settings: 'plane.json',
  caCert: 'pki/ca.crt',
  caKey: 'pki/ca.key',
  serverCert: 'pki/server.crt',
  serverKey: 'pki/server.key',
  adminCert: 'pki/admin.crt',
  adminKey: 'pki/admin.key',
  kubeletCert: 'pki/kubelet-client.crt',
  kubeletKey: 'pki/kubelet-client.key',
  frontCaCert: 'pki/front-proxy-ca.crt',
  frontCert: 'pki/front-proxy.crt',
  frontKey: 'pki/front-proxy.key',
  accountsKey: 'pki/service-accounts.key',
  accountsPub: 'pki/service-accounts.pub',
  tokens: 'pki/tokens.csv',
  kubeconfig: 'kubeconfig',
  kubeconfigCert: 'kubeconfig-cert',
  schedulerConfig: 'scheduler.yaml',
  kwokConfig: 'kwok.yaml',
  podLog: 'pod.log',
  etcdData: 'etcd',
  etcdSocket: 'etcd.sock',
  logs: 'logs',
} as const
export type PlaneFile = keyof typeof planeFiles
